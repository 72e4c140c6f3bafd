"""The machine of a job: files, the terminal, cores and memory."""
