"""Declarations of a DDlog program: types, relations and functions, by the names that each module knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...diagnostics import Diagnostics
from ...source import SourceFile, Span
from ..statement_grammar import Node, child, span_of, tokens_in, trees
from ..syntax_errors import LeftOut
from .library import in_library
from .tokens import integer
from .types import MOST_BITS, MOST_COLUMNS, NAMED, EnumType, IntType, ListType, PlainType, RecordType, Type, width


@dataclass(frozen=True)
class ModuleFile:
    """A file of the program: its name, ``a::b``, empty for the main one, and the names of the modules it imports."""

    name: str
    source: SourceFile
    imports: tuple[str, ...] = ()

    def known_as(self, name: str) -> str:
        """Return what a name of this module is called in Flintlog."""
        return f"{self.name.replace('::', '_')}_{name}" if self.name else name


@dataclass(frozen=True)
class DeclaredRelation:
    """A relation. Its rows, ``R[x]``, are of the type ``whole``; that of its arguments, ``R(x, y)``, is ``row``: the
    same one if it is a structure, else a record with one ``value``."""

    name: str
    whole: Type
    row: RecordType
    declared: Span


@dataclass(frozen=True)
class DeclaredFunction:
    """A function with a body, which takes the place of its calls; without one, it is external."""

    name: str
    parameters: tuple[tuple[str, Type], ...]
    result: Type
    body: Node | None
    module: ModuleFile


@dataclass
class World:
    """The declarations of all modules, by module and name."""

    diagnostics: Diagnostics
    typedefs: dict[tuple[str, str], tuple[Node, ModuleFile]] = field(default_factory=dict)
    constructors: dict[tuple[str, str], tuple[Node, ModuleFile]] = field(default_factory=dict)
    relations: dict[tuple[str, str], DeclaredRelation] = field(default_factory=dict)
    functions: dict[tuple[str, str], list[DeclaredFunction]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """The names of relations, types and functions whose declarations have errors."""

    used: set[int] = field(default_factory=set)
    """The ids of the trees that define the types and functions that something uses."""

    _ignored: set[str] = field(default_factory=set)
    _resolving: list[tuple[str, str]] = field(default_factory=list)

    def refuse(self, code: str, message: str, span: Span, help: str | None = None) -> LeftOut:
        """Report an error and return the exception to raise."""
        self.diagnostics.report(code, message, span, help=help)
        return LeftOut()

    def ignore(self, what: str, span: Span, help: str | None = None) -> None:
        """Report, once, that a construct is left out."""
        if what not in self._ignored:
            self._ignored.add(what)
            self.diagnostics.report("W0811", f"{what} is ignored", span, help=help)

    def places(self, module: ModuleFile, scope: str) -> Iterator[str]:
        """Yield the names of the modules in which a name with the prefix ``scope`` may be declared."""
        if scope:
            module_name = scope.removesuffix("::")
            for name in (module.name, *module.imports):
                if name == module_name or name.endswith(f"::{module_name}"):
                    yield name
        else:
            yield from dict.fromkeys((module.name, *module.imports))

    # ---- types -----------------------------------------------------------------------------------------------------

    def type(self, tree: Node, module: ModuleFile) -> Type:
        """Return the type that a tree spells."""
        span = module.source.span(tree.meta.start_pos, tree.meta.end_pos)
        if tree.data == "tuple_type":
            parts = [self.type(part, module) for part in trees(tree)]
            if len(parts) == 1:
                return parts[0]
            return self.narrow(RecordType("", tuple((str(place), part) for place, part in enumerate(parts))), span)
        words = tokens_in(tree, "LOWER", "UPPER")
        name = str(words[0])
        if tree.data == "applied":
            return self._applied(name, tree, module, span)
        scope = "".join(tokens_in(tree, "SCOPED"))
        for place in self.places(module, scope):
            if (place, name) in self.typedefs:
                return self._defined((place, name), span)
            if (place, name) in self.relations:
                return self.relations[place, name].whole
        if name in NAMED and in_library(scope):
            return NAMED[name]
        if name in self.broken:
            raise LeftOut
        help = "write `double`, which has 64 bits" if name == "float" else None
        if help or name in ("Set", "Map", "Ref", "Option", "Intern", "Group"):
            raise self.refuse("E0783", f"the type `{name}` is not supported", span, help)
        raise self.refuse("E0209", f"there is no type `{scope}{name}`", span)

    def _applied(self, name: str, tree: Node, module: ModuleFile, span: Span) -> Type:
        numbers = tokens_in(tree, "INT")
        inner = trees(tree)
        of_library = in_library("".join(tokens_in(tree, "SCOPED")))
        if name in ("bit", "signed") and of_library and len(numbers) == 1 and not inner:
            bits = integer(str(numbers[0]))
            if 1 <= bits <= MOST_BITS:
                return IntType(bits, name == "signed")
        if name in ("Ref", "Intern", "IObj") and of_library and len(inner) == 1 and not numbers:
            return self.type(inner[0], module)
        if name == "Vec" and of_library and len(inner) == 1 and not numbers:
            element = self.type(inner[0], module)
            if isinstance(element, RecordType):
                help = "use a relation with a row for each element"
                raise self.refuse("E0783", "a vector of tuples or structures is not supported", span, help)
            return ListType(element)
        advice = "use a relation with a row for each element" if name in ("Set", "Map") else None
        raise self.refuse("E0783", f"the type `{name}<...>` is not supported", span, advice)

    def _defined(self, key: tuple[str, str], span: Span) -> Type:
        if key in self._resolving:
            raise self.refuse("E0208", f"the type `{key[1]}` refers to itself", span)
        tree, module = self.typedefs[key]
        self.used.add(id(tree))
        self._resolving.append(key)
        try:
            if tree.data == "constructor":
                return self.record(tree, module, key[1])
            if tree.data == "variants":
                return EnumType(key[1], tuple(str(tokens_in(part, "UPPER")[0]) for part in trees(tree)))
            return self.type(tree, module)
        finally:
            self._resolving.pop()

    def record(self, tree: Node, module: ModuleFile, name: str) -> RecordType:
        """Return the type of a structure with one constructor."""
        self.used.add(id(tree))
        fields = tuple(self.fields(tree, module))
        token = tokens_in(tree, "UPPER")[0]
        return self.narrow(RecordType(str(token), fields, name), span_of(module.source, token))

    def narrow(self, type_: RecordType, span: Span) -> RecordType:
        """Return a type; report E0783 if its values have too many columns."""
        if width(type_) > MOST_COLUMNS:
            raise self.refuse("E0783", f"values of this type have more than {MOST_COLUMNS:,} columns", span)
        return type_

    def fields(self, tree: Node, module: ModuleFile) -> Iterator[tuple[str, Type]]:
        """Yield the fields of a constructor, a relation or a function."""
        names: set[str] = set()
        for part in trees(tree):
            if part.data == "field":
                (kind,) = trees(part)
                (name,) = tokens_in(part, "LOWER")
                if name in names:
                    span = span_of(module.source, name)
                    raise self.refuse("E0205", f"two fields are called `{name}`", span, "rename one of them")
                names.add(str(name))
                yield str(name), self.type(kind, module)

    # ---- names -----------------------------------------------------------------------------------------------------

    def relation(self, tree: Node, module: ModuleFile) -> DeclaredRelation | None:
        """Return the relation that a qualified name stands for, None if there is none."""
        scope, name = "".join(tokens_in(tree, "SCOPED")), str(tokens_in(tree, "UPPER")[0])
        relations = [self.relations[p, name] for p in self.places(module, scope) if (p, name) in self.relations]
        return relations[0] if relations else None

    def constructor(self, tree: Node, module: ModuleFile) -> RecordType:
        """Return the type of a constructor."""
        scope, token = "".join(tokens_in(tree, "SCOPED")), tokens_in(tree, "UPPER")[0]
        relation = self.relation(tree, module)
        for place in self.places(module, scope):
            if (place, str(token)) in self.constructors:
                definition, home = self.constructors[place, str(token)]
                name = next((n for (p, n), (t, _) in self.typedefs.items() if p == place and t is definition), "")
                return self.record(definition, home, name)
        if relation is not None:
            return relation.row
        raise self.refuse("E0201", f"there is no constructor `{token}`", span_of(module.source, token))

    def enumeration(self, tree: Node, module: ModuleFile) -> EnumType | None:
        """Return the type that has a constructor without fields, None if it is another constructor."""
        scope, name = "".join(tokens_in(tree, "SCOPED")), str(tokens_in(tree, "UPPER")[0])
        for place in self.places(module, scope):
            for (home, type_name), (definition, _) in self.typedefs.items():
                if home == place and definition.data == "variants":
                    type_ = EnumType(type_name, tuple(str(tokens_in(part, "UPPER")[0]) for part in trees(definition)))
                    if name in type_.constructors:
                        self.used.add(id(definition))
                        return type_
        return None

    def functions_of(self, name: str, scope: str, module: ModuleFile) -> list[DeclaredFunction]:
        """Return the functions of the program that a name stands for; they differ in their parameters."""
        return [function for place in self.places(module, scope) for function in self.functions.get((place, name), ())]


def plain_name(type_: Type) -> str:
    """Return the name of a type of Flintlog that has no parameters; empty for lists and records."""
    if isinstance(type_, IntType):
        return "int"
    if isinstance(type_, EnumType):
        return "string"
    return type_.name if isinstance(type_, PlainType) else ""


def key_of(tree: Node) -> Node | None:
    """Return the primary key of a relation, None if it has none."""
    return child(tree, "key")
