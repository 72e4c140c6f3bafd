"""Constructs of DDlog besides its core: each is refused by its name, with what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ...source import SourceFile
from ..statement_grammar import Refusal

_RULES = "write rules, with a condition for each case"
_STATEMENTS = {
    "for": ("E0781", "rules that are written as loops are not supported", "write them with `:-`"),
    "apply": ("E0787", "transformers are not supported", "write rules; recursion computes closures and components"),
    "transformer": (
        "E0787",
        "transformers are not supported",
        "write rules; recursion computes closures and components",
    ),
    "index": (
        "E0787",
        "indexes are not supported",
        "omit it: a relation can be read as a whole, or joined with an input",
    ),
}
_WORDS = {
    "match": ("E0784", "`match` is not supported", "write `if`, or a rule for each case"),
    "return": ("E0781", "`return` is not supported", "a function is one expression"),
    "skip": ("E0781", "`skip` is not supported", "a function is one expression"),
    "break": ("E0781", "`break` is not supported", "a function is one expression"),
    "continue": ("E0781", "`continue` is not supported", "a function is one expression"),
    "for": ("E0781", "loops are not supported", "use `FlatMap` in a rule, and `group_by`"),
}


def refused(tokens: Sequence[Token], source: SourceFile) -> Refusal | None:
    """Return the first construct of a statement that is refused, None if there is none."""
    first = tokens[0]
    word, following = str(first), str(tokens[1]) if len(tokens) > 1 else ""
    if first.type in ("LOWER", "KIND") and word in _STATEMENTS:
        return Refusal(*_STATEMENTS[word], first)
    if first.type == "EXTERN" and following in ("type", "transformer"):
        help = "use a type that Flintlog has" if following == "type" else _STATEMENTS["apply"][2]
        return Refusal("E0782", f"an external {following} is not supported", help, first)
    for place, token in enumerate(tokens):
        refusal = _within(tokens, place)
        if refusal is not None:
            return refusal
        if token.type == "KIND" and token == "stream":
            help = "write `relation`, and delete its rows by changes when they have been seen"
            return Refusal("E0780", "streams, whose rows last for one transaction, are not supported", help, token)
    return None


def _within(tokens: Sequence[Token], place: int) -> Refusal | None:
    """Return the refusal of the construct at ``place``."""
    token, word = tokens[place], str(tokens[place])
    before = tokens[place - 1].type if place else ""
    following = tokens[place + 1].type if place + 1 < len(tokens) else ""
    if token.type == "GENERIC":
        return Refusal("E0782", f"type variables such as `{word}` are not supported", "declare it for each type", token)
    if token.type == "SEMICOLON":
        return Refusal("E0781", "statements in sequence are not supported", "a function is one expression", token)
    if (
        token.type == "LOWER"
        and word in _WORDS
        and following in ("LPAR", "SEMICOLON", "RBRACE", "LOWER")
        and before != "DOT"
    ):
        return Refusal(*_WORDS[word], token)
    if token.type == "LOWER" and word == "mut" and before in ("COLON", "COMMA", "LPAR"):
        return Refusal("E0781", "arguments that a function changes are not supported", "return the new value", token)
    if token.type == "AT":
        if before in ("RPAR", "RSQB"):
            help = "omit it: where tuples are computed is up to Flintlog"
            return Refusal("E0787", "the location of a head is not supported", help, token)
        if before != "LOWER":
            return Refusal("E0784", "`@` is not supported here", "write it after a new variable in a pattern", token)
    if token.type == "TRY":
        return Refusal("E0784", "`?` is not supported", _RULES, token)
    if token.type == "IMPLIES":
        return Refusal("E0784", "`=>` is not supported", "write `not a or b`", token)
    if (
        token.type == "BAR"
        and before in ("LPAR", "COMMA", "EQUAL")
        and following == "LOWER"
        and tokens[0].type != "TYPEDEF"
    ):
        return Refusal("E0784", "functions as values are not supported", "call the function by its name", token)
    if token.type == "MINUS" and before in ("RPAR", "UPPER") and following == "INT" and _delays(tokens, place):
        return Refusal(
            "E0787", "relations of earlier transactions are not supported", "keep what was in a relation", token
        )
    return None


def _delays(tokens: Sequence[Token], place: int) -> bool:
    """Return whether ``-1`` after a relation means its content in the last transaction."""
    return tokens[place - 1].type == "UPPER"
