"""Declarations of a Soufflé program: its relations and types, and what directives and subsumptions say of relations.

    .decl shortest(x: number, n: number)
    .output shortest(filename="out.csv")
    shortest(x, n) <= shortest(x, m) :- m <= n.

declares that ``shortest`` is written to another file than usual, and that only the least ``n`` of each ``x`` is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...diagnostics import Diagnostics
from ...ir import syntax
from ...naming import unused
from ...source import Span
from . import tree
from .scopes import plain_name
from .types import Types

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_DIRECTED = ("input", "output", "printsize")
_OPTIONS = ("IO", "filename", "delimiter", "delimeter", "headers")
_PLACES = {"input": ("file",), "output": ("file", "stdout")}
"""The places of rows, of inputs and of outputs; `flintlog run` prints those of outputs that have no file."""


@dataclass
class RelationNames:
    """The names of relations in the syntax tree: those of the program by their full names, and those of relations that
    are added."""

    names: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def __contains__(self, full: str) -> bool:
        return full in self.names

    def name(self, full: str) -> str:
        """Return the name of a relation of the program."""
        if full not in self.names:
            self.names[full] = self.helper(plain_name(full.replace(".", "_")))
        return self.names[full]

    def helper(self, name: str) -> str:
        """Return a name that no relation has, and take it."""
        relation = unused(name, self.taken)
        self.taken.add(relation)
        return relation

    def admit(self, helper: str) -> str:
        """Return what atoms that are added to clauses call an added relation; no program can write it."""
        full = f"{helper} added"
        self.names[full] = helper
        return full

    def pairs(self, full: str, is_input: bool) -> str:
        """Return the relation whose pairs an equivalence relation connects: that of its clauses, except for an input,
        which is its own."""
        name = self.name(full)
        if is_input:
            return name
        key = f"{full} pairs"
        if key not in self.names:
            self.names[key] = self.helper(f"{name}_pairs")
        return self.names[key]


@dataclass(frozen=True)
class Extreme:
    """The column of a relation of which only the least or the greatest value of a group is kept."""

    column: int
    function: str


class DeclaredProgram:
    """The declarations of a program, in whatever order they stand. Names of relations are their full ones."""

    def __init__(self, statements: Sequence[tree.Statement], names: RelationNames, diagnostics: Diagnostics) -> None:
        """Collect what the statements declare, give the relations names, and report what is not supported."""
        self.diagnostics = diagnostics
        #: Whether no statement was refused, which might have declared a relation.
        self.whole = not diagnostics.failed
        self.relations: dict[str, tree.Declaration] = {}
        self.types = Types(diagnostics, self.whole)
        self.files: list[syntax.RelationFile] = []
        #: The kinds of directives of each relation.
        self.directed: dict[str, set[str]] = {}
        self.extremes: dict[str, Extreme] = {}
        #: The relations of heads of rules.
        self.derived: set[str] = set()
        self._collect(statements, names)

    def is_input(self, relation: str) -> bool:
        """Return whether a relation is read."""
        return "input" in self.directed.get(relation, ())

    def column_type(self, relation: str, place: int) -> str:
        """Return the declared type of a column, empty if there is none."""
        columns = self.relations[relation].columns if relation in self.relations else ()
        return columns[place].type if place < len(columns) else ""

    def report_unknown(self, name: str, span: Span) -> None:
        """Report a relation that is not declared, unless its declaration may have been refused."""
        help = f"declare it, as in `.decl {name}(x: number)`"
        if self.whole:
            self.diagnostics.report("E0201", f"the relation `{name}` is not declared", span, help=help)

    def _collect(self, statements: Sequence[tree.Statement], names: RelationNames) -> None:
        for statement in statements:
            match statement:
                case tree.Declaration():
                    if statement.name in self.relations:
                        message = f"the relation `{statement.name}` is declared twice"
                        self.diagnostics.report("E0202", message, statement.span)
                        continue
                    self.relations[statement.name] = statement
                    names.name(statement.name)
                    self.directed[statement.name] = {tag for tag in statement.tags if tag in _DIRECTED}
                case tree.TypeDeclaration():
                    self.types.add(statement)
        for statement in statements:
            match statement:
                case tree.Directive():
                    self._directive(statement, names)
                case tree.Clause() if statement.body is not None:
                    self.derived |= {head.relation for head in statement.heads}
                case tree.Subsumption():
                    self._subsumption(statement)
        for relation, declared in self.relations.items():
            if "input" in declared.tags:
                self._file(tree.Directive("input", relation, (), declared.span), {}, names.name(relation))

    def _directive(self, directive: tree.Directive, names: RelationNames) -> None:
        """Note what is read, written or counted, and where."""
        if directive.kind == "limitsize":
            self.diagnostics.report("E0768", "`.limitsize` is not supported", directive.span)
            return
        if directive.relation not in self.relations:
            self.report_unknown(directive.relation, directive.span)
            return
        self.directed[directive.relation].add(directive.kind)
        options = {}
        for key, value, span in directive.options:
            if key == "IO" and value not in _PLACES.get(directive.kind, (value,)):
                help = "read the rows from files, or from the tables that jobs can read"
                self.diagnostics.report("E0767", f"`IO={value}` is not supported", span, help=help)
                return
            if key not in _OPTIONS:
                self.diagnostics.report("E0767", f"the option `{key}` is not supported", span)
            options[key] = value
        if directive.kind in ("input", "output"):
            self._file(directive, options, names.name(directive.relation))

    def _file(self, directive: tree.Directive, options: dict[str, str], name: str) -> None:
        """Note the file of a relation: by default tab-separated, and named after the relation."""
        suffix = "facts" if directive.kind == "input" else "csv"
        file = options.get("filename", f"{directive.relation}.{suffix}")
        separator = options.get("delimiter", options.get("delimeter", "\t"))
        headers = options.get("headers", "false").lower() == "true"
        if len(separator) != 1:
            place = next(span for key, _, span in directive.options if key.startswith("delim"))
            self.diagnostics.report("E0767", "a delimiter of several characters is not supported", place)
            return
        if file.startswith("/") or ".." in file.split("/"):
            place = next(span for key, _, span in directive.options if key == "filename")
            help = "write its path in the folder that `--facts` or `--out` names"
            self.diagnostics.report("E0767", f"`{file}` is outside of the folder of the facts", place, help=help)
            return
        relation_file = syntax.RelationFile(name, directive.kind, file, separator, headers)
        if any((other.relation, other.direction) == (name, directive.kind) for other in self.files):
            help = "write one directive, or derive another relation from this one"
            message = f"there are two files of {directive.kind} rows of `{directive.relation}`"
            self.diagnostics.report("E0767", message, directive.span, help=help)
        elif directive.kind == "input" or not relation_file.is_usual:
            self.files.append(relation_file)

    def _subsumption(self, given: tree.Subsumption) -> None:
        """Note that a relation keeps only the least or greatest value of a column; refuse other subsumptions."""
        extreme = _extreme(given)
        relation = given.less.relation
        earlier = self.extremes.get(relation)
        help = "rewrite it so that two tuples differ in one column, and the smaller or the greater value is kept"
        if extreme is None or (earlier is not None and earlier != extreme):
            self.diagnostics.report(
                "E0765", "only subsumption that is a minimum or a maximum is supported", given.span, help=help
            )
        elif self.is_input(relation):
            message = "subsumption in a relation that is read from a file is not supported"
            help = "read the file into another relation, and derive this one from it"
            self.diagnostics.report("E0765", message, given.span, help=help)
        else:
            self.extremes[relation] = extreme


def _extreme(given: tree.Subsumption) -> Extreme | None:
    """Return which column of a relation a subsumption keeps the least or greatest value of, None if it does not."""
    less, greater = given.less, given.greater
    if less.relation != greater.relation or len(less.arguments) != len(greater.arguments) or given.body is None:
        return None
    pairs = list(zip(less.arguments, greater.arguments, strict=True))
    names = [
        (a.name, b.name) for a, b in pairs if isinstance(a, tree.VariableTerm) and isinstance(b, tree.VariableTerm)
    ]
    differing = [place for place, (one, other) in enumerate(names) if one != other]
    if len(names) != len(pairs) or len({*itertools.chain(*names)}) != len(pairs) + 1 or len(differing) != 1:
        return None
    low, high = names[differing[0]]
    match given.body.alternatives:
        case [
            [
                tree.ComparisonLiteral(
                    left=tree.VariableTerm() as left, right=tree.VariableTerm() as right, negated=False
                ) as test
            ]
        ]:
            op = test.op if (left.name, right.name) == (low, high) else _MIRRORED.get(test.op, "")
            if {left.name, right.name} == {low, high} and op in _MIRRORED:
                return Extreme(differing[0], "max" if op.startswith("<") else "min")
    return None
