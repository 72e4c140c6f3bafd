"""Support for editors: the formatter and the lexer for syntax highlighting."""
