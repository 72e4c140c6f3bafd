"""The target ``processes``: a script for each process, and the files that connect them."""
