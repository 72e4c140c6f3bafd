"""The words of the language, and the signs that other languages have for its own."""

from __future__ import annotations

from .syntax_errors import DECLARATION_WORDS

HARD_WORDS = {"not": "NOT", "true": "TRUE", "false": "FALSE"}
"""The words that are never names, with their tokens."""

KEYWORDS = (*DECLARATION_WORDS, "function", "primary", "key", "symmetric", "distinct", *HARD_WORDS, "null")
"""The words that can be keywords; all but ``not``, ``true`` and ``false`` can also be names, ``null`` not of
variables."""

ORDER_WORDS = ("by", "asc", "desc")
"""The words of the order of a ``first``, which are names everywhere else."""

FOREIGN_SIGNS = {
    "==": ("EQUAL", "="),
    "===": ("EQUAL", "="),
    "!==": ("NOT_EQUAL", "!="),
    "\\+": ("BANG", "!"),
    "=<": ("LESS_EQUAL", "<="),
    "<>": ("NOT_EQUAL", "!="),
    "&&": ("COMMA", ","),
    "/\\": ("COMMA", ","),
    "||": ("SEMICOLON", ";"),
    "\\/": ("SEMICOLON", ";"),
    "←": ("IF", ":-"),
    "⟵": ("IF", ":-"),
    "\u21d0": ("IF", ":-"),
    "¬": ("BANG", "!"),
    "≠": ("NOT_EQUAL", "!="),
    "≤": ("LESS_EQUAL", "<="),
    "≥": ("GREATER_EQUAL", ">="),
    "∧": ("COMMA", ","),
    "\u2228": ("SEMICOLON", ";"),
    "\u2212": ("MINUS", "-"),
    "\u00d7": ("STAR", "*"),
}
"""Operators of other languages and of typeset programs, with the token and the text of the operator that is meant."""

FORWARD_ARROWS = ("->", "-->", "=>", "==>", "\u2192", "\u27f6", "\u21d2", "\u27f9")
"""Arrows of other languages that lead from the body of a rule to its head."""
