"""The target ``processes``: a script for each process of a program, and what connects them."""
