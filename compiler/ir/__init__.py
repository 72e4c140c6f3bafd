"""The intermediate representations, one module of frozen dataclasses per stage."""
