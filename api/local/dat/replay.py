"""Apply command files to a running program, and print what DDlog prints.

Relations are sets: inserting a tuple that exists, or deleting one that does not, changes nothing. For a relation with a
primary key, inserting a key that exists, or deleting or modifying one that does not, is an error. Of a multiset, each
update changes the number of copies by one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flintlog.compiler.diagnostics import CompileError, Note, listed
from flintlog.compiler.source import Span
from flintlog.runtime.inputs.values import value_reader
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.sql import element_type, is_list, is_optional, plain_type
from flintlog.runtime.kernel.values import hashable
from flintlog.runtime.local.session import refusal

from ..session import AnySession
from .printer import record_text
from .reader import Reader
from .syntax import Clear, Command, Commit, Control, Dump, Echo, Items, Name, Scalar, Setting, Struct, Update, Value

Row = tuple[Any, ...]
"""A row, with lists as tuples, so that it is hashable."""


@dataclass
class Pending:
    """The effect of a transaction on an input relation: ``rows`` maps each changed tuple, or key if the relation has
    one, to the resulting row or None; ``stored`` has the previous rows by key, for a relation with a key; ``copies``
    says how many copies of each row of a multiset come or, below 0, go."""

    relation: Any
    rows: dict[Row, Row | None]
    stored: dict[Row, Row]
    copies: Counter[Row]

    def there(self, key: Row) -> Row | None:
        """Return the current row of a key, or None."""
        return self.rows[key] if key in self.rows else self.stored.get(key)

    def changes(self) -> Iterator[tuple[str, Row]]:
        """Yield the changes to apply to the program."""
        for copied, number in self.copies.items():
            yield from [("+" if number > 0 else "-", copied)] * abs(number)
        for key, row in self.rows.items():
            if not self.relation.key:
                yield ("-", key) if row is None else ("+", row)
                continue
            old = self.stored.get(key)
            if old is not None and old != row:
                yield "-", old
            if row is not None and old != row:
                yield "+", row


class Replay:
    """Applies the commands of a reader to a session; ``write`` prints lines."""

    def __init__(self, session: AnySession, reader: Reader, write: Callable[[str], None]) -> None:
        """Build the relations from the program's own facts. Raise JobError if they are refused."""
        self.session = session
        self.reader = reader
        self.write = write
        relations = self.session.program.relations
        self.inputs = {r.name: r for r in relations if r.kind == "input" and not r.clock}
        self.visible = {r.name: r for r in relations if not r.hidden}
        self.outputs = sorted((r for r in self.visible.values() if r.output), key=lambda r: r.name)
        #: The rows by key, for each updated relation with a key.
        self.keys: dict[str, dict[Row, Row]] = {}
        #: The start of the transaction, or None outside of one, and its effects by relation name.
        self.started: Span | None = None
        self.pending: dict[str, Pending] = {}
        self.queue: list[tuple[Update, Any]] = []
        self.session.apply({})
        self._changes()

    def run_all(self, refused: Callable[[CompileError], bool]) -> None:
        """Execute all commands of the reader. Pass the error of each refused command to ``refused``, which returns
        whether to continue on the next line."""
        going = True
        while going:
            try:
                command = self.reader.command()
                going = command is not None and self.run(command)
            except CompileError as error:
                going = refused(error)
                self.reader.skip_line()

    def run(self, command: Command) -> bool:
        """Execute a command; return False if it is the last. Raise CompileError, with its place, if it is refused."""
        if self.queue and not isinstance(command, Update | Commit):
            self.queue.clear()
            raise self._error("E0901", "`;` is missing after the previous update", command.span)
        match command:
            case Update():
                self._update(command)
            case Commit(shown):
                self._apply_queue()
                self._commit(shown, command.span)
            case Control("start"):
                if self.started is not None:
                    raise self._error(
                        "E0904", f"the transaction of line {self.started.line} has not ended", command.span
                    )
                self.started = command.span
            case Control("rollback"):
                self._need_transaction(command.span)
                self._end()
            case Control("exit"):
                return False
            case Control("timestamp"):
                self.write(f"Timestamp: {time.time_ns()}")
            case Dump(None):
                for relation in self.outputs:
                    records = list(self._records(relation))
                    if records:
                        self.write("\n".join([f"{relation.name}:", *records, ""]))
            case Dump(Name() as name):
                records = list(self._records(self._relation(name, self.visible)))
                if records:
                    self.write("\n".join(records))
            case Clear(name):
                self._clear(name, command.span)
            case Echo(text):
                self.write(text)
            case Setting("mssleep", number):
                time.sleep(number / 1000)
        if not self.queue:
            self.reader.forget(None if self.started is None else self.started.line)
        return True

    def unfinished(self) -> CompileError | None:
        """Return a CompileError with a warning if the commands end within a transaction, which then changes nothing."""
        if self.started is None:
            return None
        return self._error("W0901", "this transaction is not committed and changes nothing", self.started)

    def _error(
        self, code: str, message: str, span: Span, help: str | None = None, notes: tuple[Note, ...] = ()
    ) -> CompileError:
        return self.reader.error(code, message, span, help, notes)

    def _relation(self, name: Name, among: dict[str, Any]) -> Any:
        if name.text in among:
            return among[name.text]
        if name.text in self.visible:
            help = ", ".join(sorted(self.inputs)) or "none"
            raise self._error(
                "E0902", f"`{name.text}` is not an input relation", name.span, f"the input relations: {help}"
            )
        alike = [other for other in sorted(among) if other.lower() == name.text.lower()]
        help = f"names are matched exactly: `{alike[0]}`" if alike else f"there are {', '.join(sorted(among))}"
        raise self._error("E0902", f"there is no relation `{name.text}`", name.span, help if among else None)

    # Printing

    def _record(self, relation: Any, row: Row) -> str:
        return record_text(relation.name, (column.name for column in relation.columns), row)

    def _records(self, relation: Any) -> Iterator[str]:
        for row in self.session.rows(relation):
            yield self._record(relation, row)

    def _changes(self) -> None:
        for relation in self.outputs:
            changes = self.session.changes(relation)
            if changes:
                lines = [f"{self._record(relation, row)}: {op}1" for op, row in changes]
                self.write("\n".join([f"{relation.name}:", *lines]))

    # Transactions

    def _need_transaction(self, span: Span) -> None:
        if self.started is None:
            raise self._error("E0904", "no transaction has been started", span, "start one with `start;`")

    def _end(self) -> None:
        self.started = None
        self.pending = {}
        self.queue.clear()

    def _commit(self, shown: bool, span: Span) -> None:
        self._need_transaction(span)
        pending = self.pending
        self._end()
        try:
            self.session.apply({p.relation.table: list(p.changes()) for p in pending.values()})
        except JobError as error:
            reason, *failures = refusal(error).split("\n")
            notes = tuple(Note(failure.strip()) for failure in failures)
            message = f"the transaction was refused and changes nothing: {reason}"
            raise self._error("E0906", message, span, notes=notes) from error
        for name, keyed in self.keys.items():
            for key, row in pending[name].rows.items() if name in pending else ():
                if row is None:
                    keyed.pop(key, None)
                else:
                    keyed[key] = row
        if shown:
            self._changes()

    def _pending(self, relation: Any) -> Pending:
        """Return the effect of the transaction on a relation so far."""
        if relation.key and relation.name not in self.keys:
            self.keys[relation.name] = {self._key(relation, row): row for row in self._stored(relation)}
        return self.pending.setdefault(
            relation.name, Pending(relation, {}, self.keys.get(relation.name, {}), Counter())
        )

    def _stored(self, relation: Any) -> Iterator[Row]:
        return (tuple(map(hashable, row)) for row in self.session.rows(relation))

    def _key(self, relation: Any, row: Row) -> Row:
        """Return what identifies a row: its key, or else the whole row."""
        if not relation.key:
            return row
        values = {column.sql: value for column, value in zip(relation.columns, row, strict=True)}
        return tuple(values[name] for name in relation.key)

    def _clear(self, name: Name, span: Span) -> None:
        relation = self._relation(name, self.inputs)
        self._need_transaction(span)
        pending = self._pending(relation)
        if relation.copy:
            stored = Counter(row[:-1] for row in self._stored(relation))
            pending.copies = Counter({row: -number for row, number in stored.items()})
            return
        for key in [*pending.rows, *(self._key(relation, row) for row in self._stored(relation))]:
            pending.rows[key] = None

    def _update(self, update: Update) -> None:
        """Check an update and queue it; if it is the last of its queue, apply the queue."""
        try:
            self._need_transaction(update.span)
            self.queue.append((update, self._checked(update)))
        except CompileError:
            self.queue.clear()
            raise
        if update.last:
            self._apply_queue()

    def _checked(self, update: Update) -> Any:
        """Return the values of an update: a row, a key, or a key with new values by column."""
        relation = self._relation(update.relation, self.inputs)
        if update.word in ("insert", "delete"):
            return self._row(relation, update.value)
        if not relation.key:
            raise self._error(
                "E0902", f"{update.word} needs a primary key, and `{relation.name}` has none", update.relation.span
            )
        if update.word == "insert_or_update":
            return self._row(relation, update.value)
        by_sql_name = {column.sql: column for column in relation.columns}
        columns = [by_sql_name[name] for name in relation.key]
        values = self._parts(relation, update.value, columns, "the primary key of ")
        key = tuple(self._converted(v, c) for v, c in zip(values, columns, strict=True))
        return key if update.change is None else (key, self._modification(relation, update.change))

    def _apply_queue(self) -> None:
        """Apply the queued updates: all of them, or none if one is refused."""
        queue, self.queue = self.queue, []
        undone: list[tuple[dict[Row, Row | None], Row, bool, Row | None]] = []
        try:
            for update, values in queue:
                pending = self._pending(self.inputs[update.relation.text])
                if pending.relation.copy:
                    continue
                key, row = self._applied(pending, update, values)
                undone.append((pending.rows, key, key in pending.rows, pending.rows.get(key)))
                pending.rows[key] = row
        except CompileError:
            for rows, key, was_there, old in reversed(undone):
                rows[key] = old
                if not was_there:
                    del rows[key]
            raise
        for update, values in queue:
            relation = self.inputs[update.relation.text]
            if relation.copy:
                self._pending(relation).copies[values] += 1 if update.word == "insert" else -1

    def _applied(self, pending: Pending, update: Update, values: Any) -> tuple[Row, Row | None]:
        """Return the key that an update changes, and its new row, or None for a deletion."""
        relation = pending.relation
        if not relation.key:
            return values, values if update.word == "insert" else None
        if update.word in ("insert", "insert_or_update"):
            key = self._key(relation, values)
            old = pending.there(key)
            if update.word == "insert" and old is not None:
                message = f"the key already exists, in {self._record(relation, old)}"
                raise self._error(
                    "E0905", message, update.value.span, "use insert_or_update to replace the row of a key"
                )
            return key, values
        if update.word == "delete":
            key = self._key(relation, values)
        else:
            key = values[0] if update.word == "modify" else values
        old = pending.there(key)
        if old is None:
            raise self._error("E0905", f"no row of `{relation.name}` has this key", update.value.span)
        if update.word == "delete" and old != values:
            message = f"the key has another row, {self._record(relation, old)}"
            raise self._error("E0905", message, update.value.span, "use delete_key to delete the row of a key")
        if update.word != "modify":
            return key, None
        new = tuple(values[1].get(c.sql, value) for c, value in zip(relation.columns, old, strict=True))
        if self._key(relation, new) != key:
            assert update.change is not None
            raise self._error("E0905", "modify cannot change the primary key", update.change.span)
        return key, new

    # Values

    def _row(self, relation: Any, value: Value) -> Row:
        """Return the row for a record."""
        columns = relation.columns
        if not isinstance(value, Struct) and len(columns) == 1 and not _is_tuple(value):
            return (self._converted(value, columns[0]),)
        if isinstance(value, Struct) and value.fields:
            fields = self._fields(relation, value)
            missing = [column.name for column in columns if column.sql not in fields]
            if missing:
                names = listed(f"`{name}`" for name in missing)
                raise self._error("E0903", f"`{relation.name}` also requires a value of {names}", value.span)
            return tuple(fields[column.sql] for column in columns)
        values = self._parts(relation, value, columns, "")
        return tuple(self._converted(v, c) for v, c in zip(values, columns, strict=True))

    def _parts(self, relation: Any, value: Value, columns: Sequence[Any], what: str) -> tuple[Value, ...]:
        """Return the values for several columns: the arguments of a record, the items of a tuple, or a single value."""
        if isinstance(value, Struct):
            self._same_name(value, relation.name)
            if value.fields:
                raise self._error("E0903", "a key has no field names", value.span)
            values = value.arguments
        elif isinstance(value, Items) and not value.listed:
            values = value.items
        else:
            values = (value,)
        if len(values) != len(columns):
            inner = tuple(leaf for part in values for leaf in _leaves(part))
            values = inner if len(inner) == len(columns) else values
        if len(values) != len(columns):
            count = f"{len(columns) or 'no'} column{'' if len(columns) == 1 else 's'}"
            help = f"in this order: {', '.join(c.name for c in columns)}" if columns else None
            raise self._error("E0903", f"{what}`{relation.name}` has {count}, not {len(values)}", value.span, help)
        return values

    def _same_name(self, value: Struct, name: str) -> None:
        if value.name != name:
            raise self._error("E0903", f"`{value.name}` is not a record of `{name}`", value.span)

    def _fields(self, relation: Any, value: Struct) -> dict[str, Any]:
        """Return the values of named fields by column."""
        self._same_name(value, relation.name)
        columns = {column.name: column for column in relation.columns}
        converted: dict[str, Any] = {}
        parts = zip(value.fields, value.arguments, strict=True)
        for field, argument in (pair for name, part in parts for pair in _fields_within(name, part, columns)):
            if field not in columns:
                raise self._error(
                    "E0903",
                    f"`{relation.name}` has no column `{field}`",
                    argument.span,
                    f"its columns: {', '.join(columns)}",
                )
            if columns[field].sql in converted:
                raise self._error("E0903", f"`{field}` is given twice", argument.span)
            converted[columns[field].sql] = self._converted(argument, columns[field])
        return converted

    def _modification(self, relation: Any, value: Value) -> dict[str, Any]:
        """Return the new values of a modify command by column: those of the named columns, or of all."""
        if isinstance(value, Struct) and (value.fields or not value.arguments):
            return self._fields(relation, value)
        return dict(zip((column.sql for column in relation.columns), self._row(relation, value), strict=True))

    def _converted(self, value: Value, column: Any) -> Any:
        """Return a value converted to the type of a column."""
        return self._typed(value, column.type, column.name)

    def _typed(self, value: Value, kind: str, name: str) -> Any:
        if is_list(kind) and isinstance(value, Items) and value.listed:
            return tuple(self._typed(item, element_type(kind), name) for item in value.items)
        if is_optional(kind):
            null = isinstance(value, Struct) and (value.name, value.arguments) == ("null", ())
            return None if null else self._typed(value, plain_type(kind), name)
        if kind == "string" and isinstance(value, Struct) and not value.arguments and value.name[0].isupper():
            return value.name  # A constructor without fields.
        article = "an" if kind == "int" else "a"
        if is_list(kind) or not isinstance(value, Scalar):
            raise self._error("E0903", f"column `{name}`: {_kind(value)} is not {article} {kind}", value.span)
        try:
            return value_reader(kind)(value.value)
        except ValueError as error:
            quoted = isinstance(value.value, str) and kind in ("int", "float", "bool")
            help = f"{article} {kind} is written without quotes" if quoted else None
            raise self._error("E0903", f"column `{name}`: {error}", value.span, help) from error


def _leaves(value: Value) -> tuple[Value, ...]:
    """Return the values within tuples and structures, which columns of their own hold in programs of DDlog."""
    parts: tuple[Value, ...] = ()
    if isinstance(value, Struct) and not value.fields:
        parts = value.arguments
    elif _is_tuple(value) and isinstance(value, Items):
        parts = value.items
    return tuple(leaf for part in parts for leaf in _leaves(part)) if parts else (value,)


def _fields_within(field: str, value: Value, columns: Collection[str]) -> Iterator[tuple[str, Value]]:
    """Yield the columns and values of a field: itself, or ``field_x`` and so on if it is a tuple or structure."""
    inner = [column for column in columns if column.startswith(f"{field}_")]
    if field in columns or not inner:
        yield field, value
    elif isinstance(value, Struct) and value.fields:
        for name, part in zip(value.fields, value.arguments, strict=True):
            yield from _fields_within(f"{field}_{name}", part, columns)
    elif len(_leaves(value)) == len(inner):
        yield from zip(inner, _leaves(value), strict=True)
    else:
        yield field, value


def _is_tuple(value: Value) -> bool:
    return isinstance(value, Items) and not value.listed


def _kind(value: Value) -> str:
    """Return what to call a value in messages."""
    match value:
        case Items(listed=True):
            return "a list"
        case Items():
            return "a tuple"
        case Struct(name):
            return f"`{name}`"
    return "this value"
