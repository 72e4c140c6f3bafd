"""The arguments of atoms and constructors of DDlog, which are given by place or by name."""

from __future__ import annotations

from ...naming import counted
from ..statement_grammar import Node, tokens_in, trees
from .scope import RuleScope
from .types import RecordType


def arguments_by_field(scope: RuleScope, tree: Node, record: RecordType) -> dict[str, Node]:
    """Return the arguments of an atom or constructor by the names of fields."""
    arguments: dict[str, Node] = {}
    positional = 0
    whole = [part for part in trees(tree) if part.data != "qualified"]
    for part in whole:
        inner = part
        if part.data == "argument":
            inner = trees(part)[0]
        if part.data == "by_name":
            name, inner = str(tokens_in(part, "LOWER")[0]), trees(part)[0]
            if name not in dict(record.fields):
                raise scope.refuse("E0203", f"`{record.constructor}` has no field `{name}`", part)
        else:
            if positional >= len(record.fields):
                message = _misfit(record, len(whole))
                raise scope.refuse("E0203", message, tree)
            name = record.fields[positional][0]
            positional += 1
        if name in arguments:
            raise scope.refuse("E0203", f"the field `{name}` of `{record.constructor}` is given twice", part)
        arguments[name] = inner
    if positional and positional < len(record.fields) and positional == len(whole):
        message = _misfit(record, len(whole))
        raise scope.refuse("E0203", message, tree, "name the fields, as in `.x = 1`, to leave others out")
    return arguments


def _misfit(record: RecordType, given: int) -> str:
    """Return that a relation or constructor has not as many fields as there are arguments."""
    fields, arguments = counted(len(record.fields), "field"), counted(given, "argument")
    return f"`{record.constructor}` has {fields}, but {arguments} here"
