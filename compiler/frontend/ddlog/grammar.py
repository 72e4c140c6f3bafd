"""The grammar of a statement of DDlog, and what messages call its tokens."""

from __future__ import annotations

from pathlib import Path

from ..statement_grammar import Grammar

_WORDS = {
    "END": "`.`",
    "COMMA": "`,`",
    "IF": "`:-`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "RBRACE": "`}`",
    "RSQB": "`]`",
    "GREATER": "`>`",
    "COLON": "`:`",
    "EQUAL": "`=`",
    "ELSE": "`else`",
    "LOWER": "a name in lower case",
    "UPPER": "a name in upper case",
    "INT": "a number",
}
GRAMMAR = Grammar(Path(__file__).with_name("ddlog.lark"), _WORDS)
