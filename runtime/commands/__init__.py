"""The commands of a job, one module each."""
