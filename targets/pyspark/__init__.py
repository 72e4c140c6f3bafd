"""The target ``pyspark``: one standalone maintenance script per program."""
