"""Templates of the target ``pyspark``; ``script.py.jinja`` is a script's table of contents."""
