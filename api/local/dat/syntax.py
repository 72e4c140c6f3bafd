"""Syntax of DDlog command files: commands, and the values in them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from flintlog.compiler.source import Span


@dataclass(frozen=True)
class Name:
    """The name of a relation."""

    text: str
    span: Span


@dataclass(frozen=True)
class Scalar:
    """``true``, ``"text"``, ``-12`` or ``1.5``; numbers with a point or an exponent are decimals."""

    value: bool | int | Decimal | str
    span: Span


@dataclass(frozen=True)
class Items:
    """A tuple ``(v, v)`` or, if ``listed``, a list ``[v, v]``."""

    items: tuple[Value, ...]
    listed: bool
    span: Span


@dataclass(frozen=True)
class Struct:
    """``Cons``, ``Cons{v, v}``, ``Cons{.f = v}``, or ``Cons(...)`` for the record of a relation; ``fields`` has a name
    for each argument, or is empty."""

    name: str
    arguments: tuple[Value, ...]
    fields: tuple[str, ...]
    span: Span


Value = Scalar | Items | Struct


@dataclass(frozen=True)
class Control:
    """``start;``, ``rollback;``, ``exit;``, ``timestamp;`` or ``profile ...;``, identified by its ``word``."""

    word: str
    span: Span


@dataclass(frozen=True)
class Commit:
    """``commit;``, or ``commit dump_changes;``, which shows the changes."""

    shown: bool
    span: Span


@dataclass(frozen=True)
class Dump:
    """``dump;`` or ``dump R;``."""

    relation: Name | None
    span: Span


@dataclass(frozen=True)
class Clear:
    """``clear R;``."""

    relation: Name
    span: Span


@dataclass(frozen=True)
class Echo:
    """``echo TEXT;``."""

    text: str
    span: Span


@dataclass(frozen=True)
class Setting:
    """``log_level N;`` or ``mssleep N;``."""

    word: str
    number: int
    span: Span


@dataclass(frozen=True)
class Update:
    """A change of a relation. ``word`` is insert, delete or insert_or_update, of the record ``value``; or delete_key or
    modify, of the key ``value``, where modify sets the values of ``change``. It is the ``last`` of its queue if it ends
    with ``;`` instead of ``,``."""

    word: str
    relation: Name
    value: Value
    change: Value | None
    last: bool
    span: Span


Command = Control | Commit | Dump | Clear | Echo | Setting | Update
