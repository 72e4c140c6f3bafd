"""The types of a Soufflé program, and how its records are stored.

A subtype or a union is an alias of its base. A record is a list of its fields: ``[1, 2]``. Those that are records
themselves follow the others, as their own elements, each behind the number of these, except for the last; so a linked
list is a list of its values. ``nil`` is the empty list. If some fields of records that contain each other are numbers
and others symbols, all are kept as strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...diagnostics import Diagnostics
from ...ir import syntax
from ...naming import unused
from ...source import Span
from . import tree
from .functors import NoEquivalent

PRIMITIVES = {"number": "int", "unsigned": "int", "float": "float", "symbol": "string"}
"""The primitive types by name, with those of the language."""

_TAKEN = ("int", "float", "string", "bool", "date", "timestamp", "decimal", "list")
"""Names of types in the language, which aliases must not have."""


@dataclass(frozen=True)
class RecordLayout:
    """How a record is stored as a list: first its values, of the fields with the indexes ``values``, then its records,
    of those in ``records``, each behind its size if the index is in ``sized``. ``element`` is the type of elements."""

    fields: tuple[tree.Attribute, ...]
    values: tuple[int, ...]
    records: tuple[int, ...]
    sized: tuple[int, ...]
    element: str

    @property
    def least(self) -> int:
        """The size of the smallest record that is not nil."""
        return len(self.values) + len(self.sized)


class Types:
    """The declared types of a program."""

    def __init__(self, diagnostics: Diagnostics, whole: bool) -> None:
        """Start without types. If the program is not ``whole``, missing ones are not reported."""
        self.diagnostics = diagnostics
        self.whole = whole
        self.declared: dict[str, tree.TypeDeclaration] = {}
        self.names: dict[str, str] = {}

    def add(self, declared: tree.TypeDeclaration) -> None:
        """Add a declaration; report E0202 for a second one of a name."""
        if declared.name in self.declared or declared.name in PRIMITIVES:
            self.diagnostics.report("E0202", f"the type `{declared.name}` is declared twice", declared.span)
            return
        self.declared[declared.name] = declared
        name = declared.name.replace(".", "_").replace("?", "")
        self.names[declared.name] = unused(name, {*self.names.values(), *_TAKEN})

    def kind(self, name: str) -> str:
        """Return the primitive type that a type is an alias of, ``record``, or an empty text if it is unknown."""
        seen: set[str] = set()
        while name not in PRIMITIVES:
            declaration = self.declared.get(name)
            if declaration is None or name in seen:
                return ""
            if declaration.fields is not None:
                return "record"
            seen.add(name)
            name = declaration.parts[0][0]
        return name

    def fields(self, name: str) -> tuple[tree.Attribute, ...]:
        """Return the fields of a record type, none of other types."""
        record = self._record(name)
        return record.fields or () if record else ()

    def _record(self, name: str) -> tree.TypeDeclaration | None:
        """Return the declaration of the record type that ``name`` is an alias of."""
        seen: set[str] = set()
        while name in self.declared and name not in seen:
            declaration = self.declared[name]
            if declaration.fields is not None:
                return declaration
            seen.add(name)
            name = declaration.parts[0][0]
        return None

    def layout(self, name: str, span: Span) -> RecordLayout:
        """Return how records of a type are stored; raise :class:`NoEquivalent` if they are not supported."""
        record = self._record(name)
        if record is None:
            help = "use it as an argument of an atom, or assign it to a variable that is one"
            raise NoEquivalent("E0769", "the type of this record is unknown", span, help)
        fields = record.fields or ()
        records = tuple(place for place, field in enumerate(fields) if self._record(field.type) is not None)
        values = tuple(place for place in range(len(fields)) if place not in records)
        # A record that is not nil has at least one element, so the size of its last record may be missing.
        sized = records[:-1] if len(fields) >= 2 else records
        connected = self._connected(record)
        kinds = {PRIMITIVES.get(self.kind(f.type), "") for r in connected for f in r.fields or () if self._is_value(f)}
        wrong = ""
        if "" in kinds:
            wrong = "a field has no type that is known"
        elif not kinds:
            wrong = "they have no values"
        elif "float" in kinds and (len(kinds) > 1 or sized):
            wrong = "they mix floats with others"
        if wrong:
            message = f"records of type `{record.name}` are not supported, since {wrong}"
            raise NoEquivalent("E0769", message, span, "give the fields columns of their own")
        return RecordLayout(fields, values, records, sized, "string" if len(kinds) > 1 else kinds.pop())

    def _is_value(self, field: tree.Attribute) -> bool:
        return self._record(field.type) is None

    def _connected(self, record: tree.TypeDeclaration) -> list[tree.TypeDeclaration]:
        """Return the record types that contain a type or are contained in it, directly or not. The lists of all of them
        have elements of one type, so that they can be joined."""
        every = [declared for declared in self.declared.values() if declared.fields is not None]
        beside: dict[str, set[str]] = {declared.name: set() for declared in every}
        for declared in every:
            for field in declared.fields or ():
                inner = self._record(field.type)
                if inner is not None:
                    beside[declared.name].add(inner.name)
                    beside[inner.name].add(declared.name)
        connected, waiting = {record.name}, [record.name]
        while waiting:
            new = beside[waiting.pop()] - connected
            connected |= new
            waiting += new
        return [declared for declared in every if declared.name in connected]

    def type_name(self, column: tree.Attribute) -> syntax.TypeName:
        """Return the type of a column."""
        name = PRIMITIVES.get(column.type) or self.names.get(column.type)
        if name is None:
            help = "declare it, as in `.type T <: symbol`"
            if self.whole:
                self.diagnostics.report("E0209", f"there is no type `{column.type}`", column.type_span, help=help)
            name = "int"
        return syntax.TypeName(name, (), None, column.type_span)

    def typedef(self, declared: tree.TypeDeclaration) -> Iterator[syntax.Typedef]:
        """Yield the alias that a declaration becomes."""
        if self.declared.get(declared.name) is not declared:
            return
        span = declared.span
        if declared.fields is not None:
            layout = self.layout(declared.name, span)
            list_type = syntax.TypeName("list", (), syntax.TypeName(layout.element, (), None, span), span)
            yield syntax.Typedef(self.names[declared.name], list_type, span)
            return
        kinds = []
        for name, place in declared.parts:
            kind = self.kind(name)
            if not kind:
                cyclic = name in self.declared
                message = f"the type `{name}` refers to itself" if cyclic else f"there is no type `{name}`"
                self.diagnostics.report("E0208" if cyclic else "E0209", message, place)
                return
            kinds.append(self._record(name) or kind)
        if any(kind != kinds[0] for kind in kinds):
            message = f"the parts of the union `{declared.name}` have different types"
            self.diagnostics.report("E0301", message, span)
            return
        first, place = declared.parts[0]
        base = PRIMITIVES.get(first) or self.names[first]
        yield syntax.Typedef(self.names[declared.name], syntax.TypeName(base, (), None, place), span)
