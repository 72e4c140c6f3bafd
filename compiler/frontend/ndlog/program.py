"""Makes the program: declares relations, with columns and types, and chooses one of equally good tuples.

    materialize(link, infinity, infinity, keys(1, 2)).
    materialize(best, infinity, infinity, keys(1, 2)).
    r1 best(@X, Y, a_MIN<C>, Z) :- link(@X, Z, C), Y := Z.

becomes::

    input relation link(@X: string, Z: string, C: int) primary key (X, Z)
    output relation best(@X: string, Y: string, C: int, Z: string) primary key (X, Y)
    r1: best_ties(@X, Y, min<C>, Z) :- link(@X, Z, C), Y := Z.
    best(@X, Y, C, min<Z>) :- best_ties(@X, Y, C, Z).

Materialized relations that no rule derives are inputs; the others are published, or those that are watched. Columns are
called after the variables in the first atom. A table keeps one tuple per key, so of the tuples that attain a minimum
the least is taken; what recursion reads are all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...diagnostics import Diagnostics, Note
from ...functions import FUNCTIONS
from ...graphs import strongly_connected
from ...ir import syntax
from ...ir.syntax_printer import rule_text
from ...naming import unused
from .translate import Materialized, Watched
from .types import KEY_TYPES, Inference

Read = Materialized | Watched | syntax.Statement


class Assembly:
    """The statements of a program, and what they say about each relation."""

    def __init__(self, statements: Sequence[Read], diagnostics: Diagnostics) -> None:
        self.statements, self.diagnostics = statements, diagnostics
        self.rules = [statement for statement in statements if isinstance(statement, syntax.RuleNode)]
        self.functions = {f.name: f for f in statements if isinstance(f, syntax.FunctionDeclaration)}
        self.declared: dict[str, syntax.RelationDeclaration] = {}
        self.tables: dict[str, Materialized] = {}
        for statement in statements:
            if isinstance(statement, syntax.RelationDeclaration):
                self.declared.setdefault(statement.name, statement)
            elif isinstance(statement, Materialized):
                self._table(statement)
        self.relations = {**self.declared, **self.tables}
        #: The atoms of each relation, heads first.
        self.atoms: dict[str, list[syntax.AtomNode]] = {name: [] for name in self.relations}
        self.derived = {rule.head.relation for rule in self.rules if rule.body}
        watched = {statement.name for statement in statements if isinstance(statement, Watched)}
        directed = {statement.name for statement in statements if isinstance(statement, syntax.OutputDirective)}
        chosen = watched or directed or any(declaration.is_output for declaration in self.declared.values())
        self.outputs = watched if chosen else {*self.derived, *watched}
        self.inference = Inference(self.functions, self.relations)
        #: The names of relations.
        self.taken = {*self.relations, *self.derived, *(a.relation for r in self.rules for a in atoms_of(r.body))}
        #: The labels of rules, without the hyphens that NDlog allows in them.
        self.labels = {rule.label: rule.label for rule in self.rules if rule.label and "-" not in rule.label}
        for rule in self.rules:
            if rule.label and rule.label not in self.labels:
                self.labels[rule.label] = unused(rule.label.replace("-", "_"), self.labels.values())

    def _table(self, table: Materialized) -> None:
        """Take in a table; report a second one (E0202), and soft state (E0750)."""
        if table.name in self.tables:
            notes = (Note("it is materialized here first", self.tables[table.name].name_span),)
            message = f"`{table.name}` is materialized twice"
            self.diagnostics.report("E0202", message, table.name_span, notes=notes)
            return
        self.tables[table.name] = table
        if table.lifetime != "infinity":
            message = f"the tuples of `{table.name}` expire after {table.lifetime} seconds, which is soft state"
            help = "write `infinity`, and delete the rows of the input that have expired by changes"
            self.diagnostics.report("E0750", message, table.lifetime_span, help=help)
        if table.size != "infinity" and not (table.size == "1" and {key.place for key in table.keys} == {1}):
            size = "1 tuple" if table.size == "1" else f"{table.size} tuples"
            message = f"`{table.name}` keeps {size} and drops others, which is soft state"
            help = "write `infinity`; a key says which tuples replace each other"
            self.diagnostics.report("E0750", message, table.size_span, help=help)

    # ---- atoms -----------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Collect the atoms of every relation; report relations that are not materialized (E0751), once each."""
        refused: set[str] = set()
        for rule in self.rules:
            self._collect(rule.head, refused, head=True)
        for rule in self.rules:
            for atom in atoms_of(rule.body):
                self._collect(atom, refused, head=False)

    def _collect(self, atom: syntax.AtomNode, refused: set[str], head: bool) -> None:
        name = atom.relation
        if name in self.atoms:
            self.atoms[name].append(atom)
            return
        if name in refused or (not head and (name in FUNCTIONS or name in self.functions or name.startswith("f_"))):
            return
        refused.add(name)
        places = ", ".join(str(place + 1) for place in range(len(atom.arguments)))
        message = f"`{name}` is not materialized, so its tuples are events, which views do not have"
        help = f"if they are to stay, write `materialize({name}, infinity, infinity, keys({places})).`"
        self.diagnostics.report("E0751", message, atom.span.start(name), help=help)

    # ---- the program -----------------------------------------------------------------------------------------------

    def program(self) -> Iterator[syntax.Statement]:
        """Yield the statements of the program."""
        self.collect()
        self._infer()
        choices = {name: choice for name in self.tables if (choice := self._choice(name)) is not None}
        components = self._components()
        done: set[str] = set()
        for statement in self.statements:
            match statement:
                case Materialized():
                    declaration = self._declaration(statement)
                    if declaration is not None and statement.name not in done:
                        done.add(statement.name)
                        yield declaration
                case syntax.RelationDeclaration():
                    if statement.name not in self.tables:
                        yield self._completed(statement)
                case Watched():
                    if statement.name not in self.relations:
                        yield syntax.OutputDirective(statement.name, statement.span)
                case syntax.RuleNode():
                    rule = self.inference.joining(statement)
                    name, head = rule.head.relation, rule.head
                    if name in choices:
                        head = replace(head, relation=_first(choices[name]))
                    component = components.get(name)
                    inside = {
                        other: choice
                        for other, choice in choices.items()
                        if component is not None and components.get(other) == component
                    }
                    body = tuple(_renamed(literal, inside) for literal in rule.body)
                    yield replace(rule, label=rule.label and self.labels[rule.label], head=head, body=body)
                    if name in choices and self._is_last(statement):
                        yield from choices[name]
                case _:
                    yield statement

    def _is_last(self, rule: syntax.RuleNode) -> bool:
        """Return whether no later rule has the same head."""
        return [other for other in self.rules if other.head.relation == rule.head.relation][-1] is rule

    def _infer(self) -> None:
        """Infer the types of all columns."""
        aliases = {statement.name: statement for statement in self.statements if isinstance(statement, syntax.Typedef)}
        for declaration in self.declared.values():
            for place, column in enumerate(declaration.columns):
                kind = column.type
                for _ in range(len(aliases)):
                    kind = aliases[kind.name].type if kind.name in aliases else kind
                self.inference.declare(declaration.name, place, kind)
        for table in self.tables.values():
            for key in table.keys:
                kind_ = KEY_TYPES.get(key.type)
                if kind_ is not None and key.place >= 1:
                    self.inference.declare(table.name, key.place - 1, syntax.TypeName(kind_, (), None, key.span))
        for number, rule in enumerate(self.rules):
            self.inference.add(number, rule)
        self.inference.solve()

    # ---- declarations ----------------------------------------------------------------------------------------------

    def _declaration(self, table: Materialized) -> syntax.RelationDeclaration | None:
        """Return the declaration of a table; None for one that is used nowhere (W0801), whose columns are unknown."""
        declared = self.declared.get(table.name)
        atoms = self.atoms[table.name]
        if declared is None and not atoms:
            self.diagnostics.report("W0801", f"nothing uses the relation `{table.name}`", table.name_span)
            return None
        if declared is None:
            names = column_names(atoms)
            columns = tuple(
                syntax.ColumnDeclaration(
                    name, self.inference.type_of(table.name, place, table.span), False, table.name_span
                )
                for place, name in enumerate(names)
            )
            declared = syntax.RelationDeclaration(
                name=table.name,
                columns=columns,
                is_input=table.name not in self.derived,
                is_output=False,
                is_derived=False,
                is_multiset=False,
                symmetric=False,
                key=(),
                at=None,
                name_span=table.name_span,
                span=table.span,
                text=table.text,
            )
        declared = self._completed(declared)
        return replace(declared, key=declared.key or self._key(table, declared.columns))

    def _completed(self, declared: syntax.RelationDeclaration) -> syntax.RelationDeclaration:
        """Return a declaration with its location and its role."""
        columns = declared.columns
        place = self._location(declared.name)
        if place is not None and not any(column.located for column in columns):
            columns = tuple(replace(c, located=index == place) for index, c in enumerate(columns))
        at = declared.at or next((atom.at for atom in self.atoms.get(declared.name, ()) if atom.at is not None), None)
        return replace(declared, columns=columns, is_output=declared.is_output or declared.name in self.outputs, at=at)

    def _location(self, name: str) -> int | None:
        """Return the column that atoms mark as the location."""
        return next((atom.location for atom in self.atoms.get(name, ()) if atom.location is not None), None)

    def _key(self, table: Materialized, columns: Sequence[syntax.ColumnDeclaration]) -> tuple[syntax.KeyColumn, ...]:
        """Return the primary key; empty if there is none, or if it has all columns. Report wrong positions (E0204)."""
        places = self._key_places(table)
        for key in table.keys:
            if not 1 <= key.place <= len(columns):
                message = f"`{table.name}` has no column {key.place}, but {len(columns)}"
                help = "keys are positions of columns, from 1"
                self.diagnostics.report("E0204", message, key.span, help=help)
                return ()
        if not table.keys or len(places) == len(columns):
            return ()
        spans = {key.place - 1: key.span for key in table.keys}
        return tuple(
            syntax.KeyColumn(columns[place].name, spans.get(place, table.name_span)) for place in sorted(places)
        )

    def _key_places(self, table: Materialized) -> frozenset[int]:
        """Return the positions from 0 of the key columns; every node has a table of its own, so the location is one."""
        located = [
            place
            for place, column in enumerate(self.declared[table.name].columns if table.name in self.declared else ())
            if column.located
        ]
        place = self._location(table.name)
        return frozenset(key.place - 1 for key in table.keys) | set(located if place is None else [place])

    # ---- ties ------------------------------------------------------------------------------------------------------

    def _choice(self, name: str) -> tuple[syntax.RuleNode, ...] | None:
        """Return the rules that choose one tuple per key where a minimum or maximum has several; None if the key of
        ``name`` does not say so."""
        table = self.tables[name]
        rules = [rule for rule in self.rules if rule.head.relation == name]
        if not table.keys or not rules or any(not rule.body for rule in rules):
            return None
        shapes = {_extremum(rule.head) for rule in rules}
        place = shapes.pop()
        width = len(rules[0].head.arguments)
        if shapes or place is None or any(len(rule.head.arguments) != width for rule in rules):
            return None
        if place == width - 1 or not self._key_places(table) <= set(range(place)):
            return None
        names = column_names(self.atoms[name])
        location = self._location(name)
        span = table.span
        variables = tuple(syntax.VariableNode(variable, span) for variable in names)
        choices: list[syntax.RuleNode] = []
        read = unused(f"{name}_ties", self.taken)
        self.taken.add(read)
        for witness in range(place + 1, width):
            last = witness == width - 1
            written = name if last else unused(f"{read}_{witness - place}", self.taken)
            self.taken.add(written)
            chosen = syntax.AggregateNode("min", variables[witness], False, span)
            arguments: tuple[syntax.Expression, ...] = (*variables[:witness], chosen, *variables[witness + 1 :])
            head = syntax.AtomNode(written, arguments, location, None, span)
            body = (syntax.AtomNode(read, variables, location, None, span),)
            rule = syntax.RuleNode(None, head, body, span, "")
            choices.append(replace(rule, text=rule_text(rule)))
            read = written
        return tuple(choices)

    def _components(self) -> dict[str, int]:
        """Return the number of the recursion of each relation that is part of one."""
        names = list(dict.fromkeys([*self.relations, *self.derived]))
        edges: dict[str, list[str]] = {name: [] for name in names}
        for rule in self.rules:
            edges[rule.head.relation] = edges.get(rule.head.relation, [])
            edges[rule.head.relation] += [atom.relation for atom in atoms_of(rule.body) if atom.relation in edges]
        numbers: dict[str, int] = {}
        for number, component in enumerate(strongly_connected(list(edges), edges)):
            if len(component) > 1 or component[0] in edges[component[0]]:
                numbers |= dict.fromkeys(component, number)
        return numbers


def _first(choice: Sequence[syntax.RuleNode]) -> str:
    """Return the relation that has all tuples that a choice is made of."""
    atom = choice[0].body[0]
    assert isinstance(atom, syntax.AtomNode)
    return atom.relation


def _renamed(literal: syntax.Literal, choices: Mapping[str, Sequence[syntax.RuleNode]]) -> syntax.Literal:
    """Return a literal that reads all tuples of the relations of ``choices``."""
    match literal:
        case syntax.AtomNode() if literal.relation in choices:
            return replace(literal, relation=_first(choices[literal.relation]))
        case syntax.Disjunction():
            parts = (tuple(_renamed(part, choices) for part in alternative) for alternative in literal.alternatives)
            return replace(literal, alternatives=tuple(parts))
    return literal


def _extremum(head: syntax.AtomNode) -> int | None:
    """Return the place of the ``min`` or ``max`` of a head that has no other aggregate."""
    places = [place for place, part in enumerate(head.arguments) if isinstance(part, syntax.AggregateNode)]
    if len(places) != 1:
        return None
    aggregate = head.arguments[places[0]]
    assert isinstance(aggregate, syntax.AggregateNode)
    return places[0] if aggregate.function in ("min", "max") else None


def atoms_of(body: Iterable[syntax.Literal]) -> Iterator[syntax.AtomNode]:
    """Yield the atoms of a body, negated ones and those of alternatives too."""
    for literal in body:
        match literal:
            case syntax.AtomNode():
                yield literal
            case syntax.NegationNode(syntax.AtomNode() as atom):
                yield atom
            case syntax.Disjunction():
                for alternative in literal.alternatives:
                    yield from atoms_of(alternative)


def column_names(atoms: Sequence[syntax.AtomNode]) -> list[str]:
    """Return names for the columns of a relation: those of the variables in its first atom that has a new
    one there."""
    names: list[str] = []
    for place in range(len(atoms[0].arguments)):
        candidates = [name for atom in atoms if (name := _variable(atom, place))]
        new = [name for name in candidates if name not in names]
        names.append(unused((new or candidates or [f"x{place + 1}"])[0], names))
    return names


def _variable(atom: syntax.AtomNode, place: int) -> str:
    """Return the variable that is an argument of an atom, or that is aggregated there; empty if there is none."""
    argument = atom.arguments[place] if place < len(atom.arguments) else None
    if isinstance(argument, syntax.AggregateNode):
        argument = argument.argument
    return argument.name if isinstance(argument, syntax.VariableNode) else ""
