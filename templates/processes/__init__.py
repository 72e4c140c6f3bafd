"""Templates of the target ``processes``."""
