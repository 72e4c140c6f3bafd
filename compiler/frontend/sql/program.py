"""What was read of a program so far: its tables and views, and the statements that they became."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from sqlglot import exp

from ...diagnostics import Diagnostics
from ...ir import syntax, typed
from ...ir.syntax_printer import rule_text
from ...source import Span
from .expressions import common, converted, test
from .scope import (
    Branch,
    Case,
    Literals,
    SqlColumn,
    SqlTable,
    SqlValue,
    atoms,
    bound,
    certain,
    is_null_test,
    substituted,
    variables,
    without_repeats,
)
from .text import NAME, RESERVED, WORDS, SqlText, Unsupported, different_names, free_name
from .types import type_name

CLOCK = "now"
TIME = SqlTable(CLOCK, (SqlColumn("time", typed.TIMESTAMP, False),), (frozenset(),))
"""The built-in relation with the time, which has one row."""

FEW_COLUMNS = 12
"""Of how many columns pairs are looked at for a key."""


@dataclass
class SqlProgram:
    """The tables, the views that are written out where they are read, those that are ``broken``, the names of all that
    users have named, and the statements.

    Of the statement that is being read: the ``types`` of variables, after which columns they are called (``hints``),
    and which may be null; the relations that were ``made`` for it, by their rows; and of how many rows at ``most`` each
    query with numbered rows is read."""

    text: SqlText
    diagnostics: Diagnostics
    tables: dict[str, SqlTable] = field(default_factory=dict)
    views: dict[str, exp.Expr] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    named_by_users: frozenset[str] = frozenset()
    statements: list[syntax.Statement] = field(default_factory=list)
    where: Span = field(init=False)
    written: str = ""
    types: dict[str, typed.Type] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    nullable: set[str] = field(default_factory=set)
    made: dict[object, SqlTable] = field(default_factory=dict)
    most: dict[int, int] = field(default_factory=dict)

    @property
    def dialect(self) -> str:
        """The dialect of sqlglot."""
        return self.text.dialect

    def begin(self, span: Span, written: str) -> None:
        """Begin with a statement."""
        self.where, self.written = span, " ".join(written.split())
        self.types, self.hints, self.nullable, self.made = {}, {}, set(), {}

    def span(self, node: exp.Expr | None) -> Span:
        """Return where a node stands."""
        return self.text.span(node, self.where)

    # ---- names -----------------------------------------------------------------------------------------------------

    def variable(self, hint: str, type_: typed.Type, nullable: bool, span: Span) -> SqlValue:
        """Return a new variable."""
        name = f"{hint}_" if hint in RESERVED | WORDS else hint if NAME.fullmatch(hint) else "x"
        chosen = free_name(name, self.types)
        self.types[chosen], self.hints[chosen] = type_, name
        if nullable:
            self.nullable.add(chosen)
        return SqlValue(syntax.VariableNode(chosen, span), type_, nullable)

    def time(self, node: exp.Expr, is_date: bool) -> Case:
        """Return the time of the batch, or its date, and the literal that gives it."""
        span = self.span(node)
        if self.tables.setdefault(CLOCK, TIME) is not TIME:
            raise Unsupported("E0793", f"the time cannot be read beside a table `{CLOCK}`", node, "rename the table")
        moment = self.variable(CLOCK, typed.TIMESTAMP, False, span)
        literal = syntax.AtomNode(CLOCK, (moment.expression,), None, None, span)
        if is_date:
            moment = SqlValue(syntax.CallNode("to_date", (moment.expression,), span), typed.DATE)
        return (literal,), moment

    def value_of(self, name: str) -> SqlValue:
        """Return a variable as a value."""
        return SqlValue(syntax.VariableNode(name, self.where), self.types[name], name in self.nullable)

    def column_of(self, name: str, branches: Iterable[Branch]) -> SqlColumn:
        """Return a variable of a query around another as a column of a relation with the rows of branches."""
        nullable = any(self.may_be_null(name, branch.literals) for branch in branches)
        return SqlColumn(name, self.types[name], nullable)

    def relation_name(self, hint: str) -> str:
        """Return a name that no relation has."""
        return free_name(hint, {*self.tables, *self.views, *self.named_by_users})

    def read(self, table: SqlTable, span: Span) -> tuple[syntax.AtomNode, dict[str, SqlValue]]:
        """Return an atom of a relation, and the variables of its columns."""
        columns = {c.name: self.variable(c.name, c.type, c.nullable, span) for c in table.columns}
        arguments = tuple(value.expression for value in columns.values())
        return syntax.AtomNode(table.name, arguments, None, None, span), columns

    # ---- relations -------------------------------------------------------------------------------------------------

    def declare(self, table: SqlTable, role: str = "", key: Sequence[str] = (), why: str = "") -> None:
        """Declare a relation: an ``input``, an ``output`` or neither; one that was made for a view says ``why``."""
        span = self.where
        columns = tuple(
            syntax.ColumnDeclaration(c.name, type_name(c.type, span), False, span, c.nullable) for c in table.columns
        )
        self.tables[table.name] = table
        self.statements.append(
            syntax.RelationDeclaration(
                table.name,
                columns,
                role == "input",
                role == "output",
                False,
                table.multiset,
                False,
                tuple(syntax.KeyColumn(name, span) for name in key),
                None,
                span,
                span,
                self.written,
                why,
            )
        )

    def rule(
        self,
        name: str,
        arguments: Sequence[syntax.Expression],
        literals: Literals,
        purpose: str = "",
        span: Span | None = None,
    ) -> None:
        """Add a rule; it stands where the statement does unless a span says more."""
        if not literals and any(isinstance(argument, syntax.AggregateNode) for argument in arguments):
            # A fact has no tuples to count.
            literals = self.always(name)
        possible = self.without_sure_tests(without_repeats(literals))
        if possible is None:
            return
        literals, arguments = self.named(*with_wildcards(possible, tuple(arguments)))
        literals = tuple(map(self._as_call, literals))
        head = syntax.AtomNode(name, arguments, None, None, span or self.where)
        rule = syntax.RuleNode(None, head, literals, span or self.where, "", purpose)
        self.statements.append(replace(rule, text=rule_text(rule)))

    def named(
        self, literals: Literals, arguments: tuple[syntax.Expression, ...]
    ) -> tuple[Literals, tuple[syntax.Expression, ...]]:
        """Return a body and a head whose variables are called after columns, with numbers only where two are called
        the same."""
        old = list(dict.fromkeys(variables((*literals, *arguments))))
        new = different_names([self.hints[name] for name in old])
        names = {name: syntax.VariableNode(chosen, self.where) for name, chosen in zip(old, new, strict=True)}
        return substituted(literals, names), substituted(arguments, names)

    def _as_call(self, literal: syntax.Literal) -> syntax.Literal:
        """Return a literal that says of a call whether it is true as that call."""
        if (
            isinstance(literal, syntax.ComparisonNode)
            and isinstance(literal.left, syntax.CallNode)
            and isinstance(literal.right, syntax.ConstantNode)
            and literal.right.kind == "bool"
            and literal.op in ("=", "!=")
            and literal.left.name not in self.tables
        ):
            atom = syntax.AtomNode(literal.left.name, literal.left.arguments, None, None, literal.span)
            positive = (literal.op == "=") == bool(literal.right.value)
            return atom if positive else syntax.NegationNode(atom, literal.span)
        return literal

    def columns(
        self, names: Sequence[str], branches: Sequence[Branch], types: Sequence[typed.Type] = ()
    ) -> tuple[SqlColumn, ...]:
        """Return the columns of a relation with these rows; they have ``types`` if no value tells."""
        result = []
        for place, name in enumerate(names):
            given = [branch.values[place] for branch in branches]
            nullable = any(
                value.is_null
                or (
                    isinstance(value.expression, syntax.VariableNode)
                    and self.may_be_null(value.expression.name, branch.literals)
                )
                for value, branch in zip(given, branches, strict=True)
            )
            type_ = common(given)
            type_ = types[place] if type_ == typed.NOTHING and types else type_
            # What is null everywhere has no type of its own.
            result.append(SqlColumn(name, typed.STRING if type_ == typed.NOTHING else type_, nullable))
        return tuple(result)

    def may_be_null(self, name: str, literals: Literals) -> bool:
        """Return whether a variable may be null where literals hold."""
        if name in certain(literals):
            return False
        places = [
            self.tables[atom.relation].columns[place].nullable
            for atom in atoms(literals)
            for place, argument in enumerate(atom.arguments)
            if isinstance(argument, syntax.VariableNode) and argument.name == name
        ]
        return all(places) if places else name in self.nullable

    def lacks_value(self, value: SqlValue, literals: Literals) -> bool:
        """Return whether a value is null, or may be where literals hold."""
        node = value.expression
        named = isinstance(node, syntax.VariableNode) and self.may_be_null(node.name, literals)
        return value.is_null or (value.nullable and named)

    def relation(
        self,
        hint: str,
        names: Sequence[str],
        branches: Sequence[Branch],
        keys: Iterable[frozenset[str]] = (),
        types: Sequence[typed.Type] = (),
    ) -> SqlTable:
        """Return a relation with the rows of branches, without copies: a known one, or a new one."""
        key = (tuple(names), tuple(map(canonical, branches)))
        if key not in self.made:
            table = SqlTable(self.relation_name(hint), self.columns(names, branches, types), tuple(keys))
            self.made[key] = table
            self.declare(table, why="a part of a view")
            self.add_rules(table, branches, "made for a view")
        return self.made[key]

    def always(self, hint: str) -> Literals:
        """Return what always holds, in one way."""
        table = self.relation(f"{hint}_once", (), [Branch((), ())])
        return (syntax.AtomNode(table.name, (), None, None, self.where),)

    def add_rules(self, table: SqlTable, branches: Sequence[Branch], purpose: str = "") -> None:
        """Add the rules of a relation, one for each branch."""
        for branch in branches:
            for tests, values in converted(branch.values, [column.type for column in table.columns]):
                self.rule(
                    table.name, [value.expression for value in values], (*branch.literals, *tests), purpose, branch.span
                )

    # ---- branches --------------------------------------------------------------------------------------------------

    def simplified(self, branch: Branch, outer: frozenset[str] = frozenset()) -> Branch | None:
        """Return a branch whose equal variables are one, and constants where they are compared with; None if it has no
        rows. Variables of ``outer`` are those of a query around this one."""
        literals, values = branch.literals, branch.values
        order = {name: place for place, name in enumerate(self.types)}
        changing = True
        while changing:
            changing = False
            here = bound(literals)
            for literal in literals:
                names = self._equal(literal, here, outer, order)
                if names is not None:
                    rest = tuple(one for one in literals if one is not literal)
                    sure = [n for n in variables(literal) if n in self.nullable and len({*variables(literal)}) == 1]
                    tests = tuple(
                        test(SqlValue(syntax.VariableNode(n, literal.span), self.types[n]), "!=")
                        for n in dict.fromkeys(sure)
                    )
                    literals, values = substituted((*rest, *tests), names), substituted(values, names)
                    changing = True
                    break
        possible = self.without_sure_tests(without_repeats(literals))
        if possible is None:
            return None
        known = tuple(
            replace(value, nullable=False)
            if isinstance(value.expression, syntax.ConstantNode) and not value.is_null
            else value
            for value in values
        )
        return Branch(possible, known, branch.span)

    def without_sure_tests(self, literals: Literals) -> Literals | None:
        """Return literals without tests for null of what is never null; None if they cannot hold."""
        for literal in literals:
            if is_null_test(literal):
                others = tuple(one for one in literals if one is not literal)
                name = next(iter(variables(literal)), None)
                if name is None or not self.may_be_null(name, others):
                    assert isinstance(literal, syntax.ComparisonNode)
                    return None if literal.op == "=" else self.without_sure_tests(others)
        return literals

    def _equal(
        self, literal: syntax.Literal, here: set[str], outer: frozenset[str], order: Mapping[str, int]
    ) -> Mapping[str, syntax.Expression] | None:
        """Return what to put in place of a variable, if a literal says that it equals another, or a constant."""
        if not isinstance(literal, syntax.ComparisonNode) or literal.op != "=":
            return None
        sides = [(literal.left, literal.right), (literal.right, literal.left)]
        if all(isinstance(side, syntax.VariableNode) for side in sides[0]):
            # The later one becomes the earlier one.
            sides.sort(key=lambda pair: -order[pair[0].name])  # type: ignore[union-attr]
        for one, other in sides:
            if not isinstance(one, syntax.VariableNode) or one.name not in here or one.name in outer:
                continue
            type_ = self.types[one.name]
            if isinstance(other, syntax.VariableNode):
                if (other.name in here or other.name in outer) and self.types[other.name] == type_:
                    return {} if one.name == other.name else {one.name: other}
            elif isinstance(other, syntax.ConstantNode) and other.kind == type_.name:
                return {one.name: other}
        return None


def with_wildcards(
    literals: Literals, arguments: tuple[syntax.Expression, ...]
) -> tuple[Literals, tuple[syntax.Expression, ...]]:
    """Return a body in which variables that occur once are wildcards."""
    counts = Counter(name for part in (literals, arguments) for name in variables(part))

    def argument(node: syntax.Expression) -> syntax.Expression:
        alone = isinstance(node, syntax.VariableNode) and counts[node.name] == 1
        return syntax.WildcardNode(node.span) if alone else node

    def literal(node: syntax.Literal) -> syntax.Literal:
        if isinstance(node, syntax.AtomNode):
            return replace(node, arguments=tuple(map(argument, node.arguments)))
        if isinstance(node, syntax.NegationNode):
            assert isinstance(node.atom, syntax.AtomNode)
            return replace(node, atom=replace(node.atom, arguments=tuple(map(argument, node.atom.arguments))))
        return node

    return tuple(map(literal, literals)), arguments


def canonical(branch: Branch) -> object:
    """Return what branches have in common that differ in the names of variables."""
    names: dict[str, syntax.Expression] = {}
    for name in variables((*branch.literals, *(value.expression for value in branch.values))):
        if name not in names:
            names[name] = syntax.VariableNode(f"#{len(names)}", Span("", 1, 1, 1))
    return substituted(branch.literals, names), tuple(substituted(v.expression, names) for v in branch.values)


def is_set(program: SqlProgram, branches: Sequence[Branch]) -> bool:
    """Return whether no two derivations of the branches give the same row: the values determine a row of each
    relation."""
    if not branches:
        return True
    identities = [{_identity(atom) for atom in atoms(branch.literals)} for branch in branches]
    shared = set.intersection(*identities)
    same = [
        place
        for place in range(len(branches[0].values))
        if len({branch.values[place].expression for branch in branches}) == 1
    ]
    for branch in branches:
        all_of, some = [*range(len(branch.values))], [a for a in atoms(branch.literals) if _identity(a) in shared]
        if len(branches) > 1 and (not some or not determined(program, branch, same, some)):
            return False
        if not determined(program, branch, all_of, list(atoms(branch.literals))):
            return False
    return True


def keys_of(program: SqlProgram, names: Sequence[str], branches: Sequence[Branch]) -> tuple[frozenset[str], ...]:
    """Return keys of a relation with the rows of branches: of one column or, if there are few, of two."""
    keys: list[tuple[int, ...]] = []
    for count in (1, 2) if len(names) <= FEW_COLUMNS else (1,):
        for places in combinations(range(len(names)), count):
            parts = [Branch(branch.literals, tuple(branch.values[place] for place in places)) for branch in branches]
            if not any({*key} <= {*places} for key in keys) and is_set(program, parts):
                keys.append(places)
    return tuple(frozenset(names[place] for place in key) for key in keys)


def _identity(atom: syntax.AtomNode) -> object:
    return atom.relation, atom.arguments


def determined(program: SqlProgram, branch: Branch, places: Sequence[int], wanted: Sequence[syntax.AtomNode]) -> bool:
    """Return whether the values at places determine a row of each of the wanted atoms."""
    known = {n for place in places for n in _plain(branch.values[place].expression)}
    rest = list(atoms(branch.literals))
    equal = [
        (one.name, {*variables(other)})
        for literal in branch.literals
        if isinstance(literal, syntax.ComparisonNode) and literal.op == "="
        for one, other in ((literal.left, literal.right), (literal.right, literal.left))
        if isinstance(one, syntax.VariableNode)
    ]
    if any(program.tables[atom.relation].multiset or program.tables[atom.relation].loose for atom in wanted):
        return False
    changing = True
    while changing:
        changing = False
        for name, others in equal:
            if name not in known and others <= known:
                known.add(name)
                changing = True
        for atom in list(rest):
            table = program.tables[atom.relation]
            names = [column.name for column in table.columns]
            every = frozenset(names)
            for key in (*table.keys, every):
                values = [a for name, a in zip(names, atom.arguments, strict=True) if name in key]
                if all(
                    isinstance(v, syntax.ConstantNode) or (isinstance(v, syntax.VariableNode) and v.name in known)
                    for v in values
                ):
                    known |= {*variables(atom)}
                    rest.remove(atom)
                    changing = True
                    break
    return not any(atom in rest for atom in wanted)


def _plain(expression: syntax.Expression) -> list[str]:
    return [expression.name] if isinstance(expression, syntax.VariableNode) else []
