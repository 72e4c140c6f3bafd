"""Constructs of NDlog that Flintlog does not have: each is refused by its name, with what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from ..statement_grammar import Refusal
from .tokens import label_length

_WEIGHT = "compute the probability in a column of its own, with a rule for each factor"
_SAYS = "omit the principals: nodes of a network trust each other"
_RANDOM = "a view depends on its inputs alone: take such values from an input relation"
_EXTERN = "declare a function of your own in a line such as `//: extern function f_sha1(x: string): string`"

FUNCTIONS = {
    "f_now": _RANDOM,
    "f_rand": _RANDOM,
    "f_diffTime": _RANDOM,
    "f_sha1": _EXTERN,
    "f_typeOf": "a column has one type, which is known when the program is compiled",
    "f_item": "write `element_at(P, N)`, which counts from 1",
    "f_hslsTtl": _EXTERN,
    "f_svcreate": "collect the members in a relation",
    "f_svin": "collect the members in a relation",
    "f_svappend": "collect the members in a relation",
    "f_svremove": "collect the members in a relation",
    "f_svandnot": "collect the members in a relation, and negate an atom",
    "f_pEdb": "`explain` of a job shows the derivations of a tuple",
    "f_pIdb": "`explain` of a job shows the derivations of a tuple",
    "f_pRule": "`explain` of a job shows the derivations of a tuple",
}
"""Functions of RapidNet that Flintlog lacks, and what to do instead."""

_STATEMENTS = {
    "trace": "omit it, and publish the relation by `watch`",
    "traceTable": "omit it, and publish the relation by `watch`",
    "TraceTable": "omit it, and publish the relation by `watch`",
    "stage": "read the tuples as changes of an input relation",
    "Query": "write a rule, and publish its relation by `watch`",
}


def refused(tokens: Sequence[Token]) -> Refusal | None:
    """Return the first construct of a statement that is refused, None if there is none."""
    return _statement(tokens) or next(
        (refusal for place in range(len(tokens)) if (refusal := _within(tokens, place)) is not None), None
    )


def _text(tokens: Sequence[Token], place: int) -> str:
    return str(tokens[place]) if 0 <= place < len(tokens) else ""


def _kind(tokens: Sequence[Token], place: int) -> str:
    return tokens[place].type if 0 <= place < len(tokens) else ""


def _statement(tokens: Sequence[Token]) -> Refusal | None:
    """Return the refusal of a whole statement."""
    first = tokens[0]
    word, following = str(first), _kind(tokens, 1)
    if word in _STATEMENTS and following in ("LPAR", "NAME") and "IF" not in {token.type for token in tokens}:
        return Refusal("E0758", f"`{word}` is not supported", _STATEMENTS[word], first)
    if word == "At" and following == "VARIABLE" and _kind(tokens, 2) == "COLON":
        message = "`At` gives rules the context of a node, which SeNDlog has"
        return Refusal("E0754", message, "mark the location by `@` in each atom, and omit it", first)
    start = 0 if word == "delete" else label_length(tokens)
    start += _kind(tokens, start) == "COLON"
    if _kind(tokens, start) in ("NUMBER", "INT") and _kind(tokens, start + 1) == "NAME":
        message = f"the rule has the weight {tokens[start]}, and rules have no probabilities"
        return Refusal("E0755", message, _WEIGHT, tokens[start])
    return None


def _within(tokens: Sequence[Token], place: int) -> Refusal | None:
    """Return the refusal of the construct that begins at ``place``."""
    token, word, following = tokens[place], str(tokens[place]), _kind(tokens, place + 1)
    if token.type == "NAME":
        if word == "delete" and following == "NAME":
            help = "tuples of derived relations go when what they follow from goes; delete rows of inputs by changes"
            return Refusal("E0753", "a rule cannot delete tuples", help, token)
        if word == "periodic" and following == "LPAR":
            help = "batches of changes drive a view: insert the rows that a timer would make into an input relation"
            return Refusal("E0752", "`periodic` is an event of the clock, which views do not have", help, token)
        if word in ("says", "encrypts") and following in ("NAME", "VARIABLE"):
            return Refusal("E0754", f"`{word}` is a construct of SeNDlog, for authentication", _SAYS, token)
        if word == "in" and following in ("LPAR", "LSQB") and _kind(tokens, place - 1) == "VARIABLE":
            help = "write comparisons; where an interval may wrap around, write both cases with `||`"
            return Refusal("E0757", "intervals of a ring are not supported", help, token)
        if word in ("null", "infinity") and (word == "null" or not _limits(tokens)) and following != "LPAR":
            help = "leave tuples without the value out, or choose a value such as `-1`"
            return Refusal("E0757", f"`{word}` is not a value of Flintlog", help, token)
    if token.type in ("SHIFT", "BITS"):
        help = "multiply and divide by powers of 2" if token.type == "SHIFT" else "compute with `/` and `%`"
        return Refusal("E0757", f"`{word}` works on bits, which is not supported", help, token)
    if token.type == "ID":
        help = "write identifiers as strings; they have no arithmetic"
        return Refusal("E0757", f"`{word}` is an identifier of 160 bits, which is not supported", help, token)
    if token.type == "AT" and _kind(tokens, place - 1) == "RPAR":
        help = "mark the argument that is the location, as in `link(@S, D)`"
        return Refusal("E0754", "a location after an atom is how SeNDlog sends it", help, token)
    return None


def _limits(tokens: Sequence[Token]) -> bool:
    return _text(tokens, 0) == "materialize" and _kind(tokens, 1) == "LPAR"
