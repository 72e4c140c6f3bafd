"""The intermediate representations of the compiler, one module of frozen dataclasses per stage."""
