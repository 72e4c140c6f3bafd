"""The Python API: what is given to it, what comes back, and what it refuses."""
