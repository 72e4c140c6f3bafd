"""Rewrite a Soufflé program without components to the syntax tree of all dialects.

    .decl total(x: number, n: number)
    total(x, n) :- item(x), n = sum y : { price(x, y) }.

becomes

    relation total(x: int, n: int)
    total_sum(x, sum<y>) :- price(x, y).
    total(x, n) :- item(x), (total_sum(x, n) ; !total_sum(x, _), n = 0).

Rules of relations that are added keep the place and the text of the clause that they are for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ...diagnostics import Diagnostics
from ...ir import syntax
from ...naming import counted, unused
from ...source import Span
from ..syntax_errors import LeftOut
from . import tree
from .functors import NoEquivalent, called, text_test
from .scopes import (
    bound_in,
    conjunctions,
    depends_on_alternative,
    has_aggregate,
    plain_name,
    positive,
    shape,
    variables_of,
    walk,
)
from .types import RecordLayout, Types

#: How many alternatives a clause with aggregates or records may have.
_MOST_ALTERNATIVES = 1_000
_FLIPPED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_FLOAT_ZERO = Decimal("0.0")
_DIRECTED = ("input", "output", "printsize")
_OPTIONS = ("IO", "filename", "name", "delimiter", "delimeter", "headers", "attributeNames")
_AGGREGATES = {"count": "count", "sum": "sum", "min": "min", "max": "max", "mean": "avg"}


@dataclass
class _Clause:
    """What is known of the clause that is being rewritten: its names of variables and their types, and how many
    literals were made so far."""

    origin: tree.Clause
    taken: set[str]
    types: dict[str, str] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        """Return a variable that the clause does not have yet."""
        found = unused(name, self.taken)
        self.taken.add(found)
        return found


@dataclass(frozen=True)
class _Extreme:
    """The column of a relation of which only the least or the greatest value of a group is kept."""

    column: int
    function: str


def lowered(
    statements: Sequence[tree.Statement], diagnostics: Diagnostics
) -> tuple[tuple[syntax.Statement, ...], tuple[syntax.RelationFile, ...]]:
    """Return the syntax nodes of the statements of a program, and the files of its relations."""
    lowering = _Lowering(statements, diagnostics)
    return tuple(lowering.statements()), tuple(lowering.files)


class _Lowering:
    """The declarations of a program, and the statements made so far."""

    def __init__(self, statements: Sequence[tree.Statement], diagnostics: Diagnostics) -> None:
        self.given = statements
        self.diagnostics = diagnostics
        #: Whether no statement was refused, which might have declared a relation.
        self.whole = not diagnostics.failed
        self.declared: dict[str, tree.Declaration] = {}
        self.types = Types(diagnostics, self.whole)
        self.names: dict[str, str] = {}
        self.taken: set[str] = set()
        self.files: list[syntax.RelationFile] = []
        self.directed: dict[str, set[str]] = {}
        self.extremes: dict[str, _Extreme] = {}
        self.derived: set[str] = set()
        #: The relations of aggregates, by these, the variables that they are grouped by and their clause.
        self.aggregated: dict[tuple[object, tuple[str, ...], Span], str] = {}
        self._collect()

    # ---- declarations ----------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Find what is declared, in whatever order it stands."""
        for statement in self.given:
            match statement:
                case tree.Declaration():
                    if statement.name in self.declared:
                        message = f"the relation `{statement.name}` is declared twice"
                        self.diagnostics.report("E0202", message, statement.span)
                        continue
                    self.declared[statement.name] = statement
                    self._name(statement.name)
                    self.directed[statement.name] = {tag for tag in statement.tags if tag in _DIRECTED}
                case tree.TypeDeclaration():
                    self.types.add(statement)
        for statement in self.given:
            match statement:
                case tree.Directive():
                    self._directive(statement)
                case tree.Clause() if statement.body is not None:
                    self.derived |= {head.relation for head in statement.heads}
                case tree.Subsumption():
                    self._subsumption(statement)

    def _name(self, full: str) -> str:
        """Return the name of a relation in the syntax tree."""
        if full not in self.names:
            self.names[full] = self._helper(plain_name(full.replace(".", "_")))
        return self.names[full]

    def _helper(self, name: str) -> str:
        """Return a name that no relation has, and take it."""
        found = unused(name, self.taken)
        self.taken.add(found)
        return found

    def _directive(self, directive: tree.Directive) -> None:
        """Note what is read, written or counted, and where."""
        if directive.kind == "limitsize":
            self.diagnostics.report("E0768", "`.limitsize` is not supported", directive.span)
            return
        if directive.relation not in self.declared:
            self._unknown(directive.relation, directive.span)
            return
        self.directed[directive.relation].add(directive.kind)
        options = {}
        for key, value, span in directive.options:
            if key == "IO" and value not in ("file", "stdin", "stdout", "stdoutprintsize"):
                help = "read the rows from files, or from the tables that jobs can read"
                self.diagnostics.report("E0767", f"`IO={value}` is not supported", span, help=help)
                return
            if key not in _OPTIONS:
                self.diagnostics.report("E0767", f"the option `{key}` is not supported", span)
            options[key] = value
        if directive.kind in ("input", "output"):
            self._file(directive, options)

    def _file(self, directive: tree.Directive, options: dict[str, str]) -> None:
        """Note the file of a relation if it is not the usual one: tab-separated, and named after the relation."""
        name = self._name(directive.relation)
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
        usual = (f"{name}.{suffix}", "\t", False)
        if (file, separator, headers) != usual:
            self.files.append(syntax.RelationFile(name, directive.kind, file, separator, headers))

    def _subsumption(self, given: tree.Subsumption) -> None:
        """Note that a relation keeps only the least or greatest value of a column; refuse other subsumptions."""
        extreme = _extreme(given)
        relation = given.less.relation
        known = self.extremes.get(relation)
        help = "rewrite it so that two tuples differ in one column, and the smaller or the greater value is kept"
        if extreme is None or (known is not None and known != extreme):
            self.diagnostics.report(
                "E0765", "only subsumption that is a minimum or a maximum is supported", given.span, help=help
            )
        elif "input" in self.directed.get(relation, ()):
            message = "subsumption in a relation that is read from a file is not supported"
            help = "read the file into another relation, and derive this one from it"
            self.diagnostics.report("E0765", message, given.span, help=help)
        else:
            self.extremes[relation] = extreme

    def _unknown(self, name: str, span: Span) -> None:
        help = f"declare it, as in `.decl {name}(x: number)`"
        if self.whole:
            self.diagnostics.report("E0201", f"the relation `{name}` is not declared", span, help=help)

    def statements(self) -> Iterator[syntax.Statement]:
        """Yield the statements of the program, in the order of what they were made of."""
        for statement in self.given:
            try:
                match statement:
                    case tree.Declaration():
                        yield from self._declaration(statement)
                    case tree.TypeDeclaration():
                        yield from self.types.typedef(statement)
                    case tree.Directive(kind="printsize"):
                        yield from self._size(statement.relation, statement.span)
                    case tree.Clause():
                        yield from self._clause(statement)
            except LeftOut:
                continue
            except NoEquivalent as refusal:
                self.diagnostics.report(refusal.code, refusal.message, refusal.span, help=refusal.help)

    def _declaration(self, given: tree.Declaration) -> Iterator[syntax.Statement]:
        if self.declared[given.name] is not given:
            return
        directed = self.directed[given.name]
        is_input, name = "input" in directed, self._name(given.name)
        columns = tuple(
            syntax.ColumnDeclaration(plain_name(c.name), self.types.type_name(c), False, c.span) for c in given.columns
        )
        yield syntax.RelationDeclaration(
            name=name,
            columns=columns,
            is_input=is_input,
            is_output="output" in directed,
            is_derived=is_input and (given.name in self.derived or "eqrel" in given.tags),
            is_multiset=False,
            symmetric=False,
            key=(),
            at=None,
            name_span=given.span,
            span=given.span,
            text=given.text,
        )
        if "eqrel" in given.tags:
            yield from self._equivalence(given, name)
        if "printsize" in given.tags:
            yield from self._size(given.name, given.span)

    def _equivalence(self, given: tree.Declaration, name: str) -> Iterator[syntax.Statement]:
        """Yield the rule that makes a relation an equivalence relation on the values that it has."""
        if len(given.columns) != 2:
            self.diagnostics.report("E0768", "an `eqrel` has two columns", given.span)
            return
        span, pairs = given.span, self._pairs(given)
        if pairs != name:
            columns = tuple(
                syntax.ColumnDeclaration(plain_name(c.name), self.types.type_name(c), False, c.span)
                for c in given.columns
            )
            yield syntax.RelationDeclaration(
                pairs, columns, False, False, False, False, False, (), None, span, span, given.text
            )
        step = syntax.PathStep(pairs, span)
        path = syntax.PathRepeat(syntax.PathChoice((step, syntax.PathInverse(step, span)), span), "+", span)
        left, right = syntax.VariableNode("x", span), syntax.VariableNode("y", span)
        head = syntax.AtomNode(name, (left, right), None, None, span)
        body = (syntax.PathLiteral(path, left, right, span),)
        yield syntax.RuleNode(None, head, body, span, given.text, "an equivalence relation")

    def _pairs(self, given: tree.Declaration) -> str:
        """Return the relation whose pairs an equivalence relation connects: that of its clauses, except for an input,
        which is its own."""
        name = self._name(given.name)
        if "input" in self.directed[given.name]:
            return name
        key = f"{given.name} pairs"
        if key not in self.names:
            self.names[key] = self._helper(f"{name}_pairs")
        return self.names[key]

    def _size(self, full: str, span: Span) -> Iterator[syntax.Statement]:
        """Yield a relation with the number of tuples of another one, and its rules."""
        if full not in self.declared:
            return
        name, declared = self._name(full), self.declared[full]
        size, counted = self._helper(f"{name}_size"), self._helper(f"{name}_count")
        number, text = syntax.TypeName("int", (), None, span), f".printsize {full}"
        column = syntax.ColumnDeclaration("size", number, False, span)
        yield syntax.RelationDeclaration(size, (column,), False, True, False, False, False, (), None, span, span, text)
        wildcards = tuple(syntax.WildcardNode(span) for _ in declared.columns)
        every = syntax.AtomNode(name, wildcards, None, None, span)
        n = syntax.VariableNode("n", span)
        count = syntax.AtomNode(counted, (syntax.AggregateNode("count", None, False, span),), None, None, span)
        some = syntax.AtomNode(counted, (syntax.WildcardNode(span),), None, None, span)
        zero = syntax.ConstantNode(0, "int", span)
        yield syntax.RuleNode(None, count, (every,), span, text, f"the size of {full}")
        found = replace(some, arguments=(n,))
        yield syntax.RuleNode(None, syntax.AtomNode(size, (n,), None, None, span), (found,), span, text)
        none = (syntax.NegationNode(some, span),)
        yield syntax.RuleNode(None, syntax.AtomNode(size, (zero,), None, None, span), none, span, text)

    # ---- clauses ---------------------------------------------------------------------------------------------------

    def _clause(self, given: tree.Clause) -> Iterator[syntax.Statement]:
        """Yield the rules of a clause, those of relations that it needs first."""
        for head in given.heads:
            if head.relation not in self.declared:
                self._unknown(head.relation, head.span)
                raise LeftOut
        literals: tuple[tree.Literal, ...] = (given.body,) if given.body else ()
        for conjunction in self._bodies(given):
            for head in given.heads:
                taken = {plain_name(name) for name in variables_of((*given.heads, *literals))}
                clause = _Clause(given, taken)
                self._note_types(clause, (*conjunction, *given.heads))
                yield from self._rule(head, conjunction, clause)

    def _bodies(self, given: tree.Clause) -> tuple[tree.Body, ...]:
        """Return the bodies that a clause has rules for: one, or one for each alternative if these have aggregates or
        records, whose variables are those of an alternative."""
        if given.body is None:
            return ((),)
        if not depends_on_alternative((*given.heads, given.body)):
            return given.body.alternatives if len(given.body.alternatives) == 1 else ((given.body,),)
        found = conjunctions(given.body, _MOST_ALTERNATIVES, keep=True)
        if found is None:
            message = f"this clause has more than {_MOST_ALTERNATIVES:,} alternatives"
            raise NoEquivalent("E0710", message, given.span, "write several clauses")
        return found

    def _rule(self, head: tree.AtomLiteral, body: tree.Body, clause: _Clause) -> Iterator[syntax.Statement]:
        """Yield the rule of a head and a body, behind those of relations that it needs."""
        made: list[syntax.Statement] = []
        name = self._name(head.relation)
        before: list[tree.Literal] = []
        arguments = []
        for argument in head.arguments:
            argument = self._without_aggregates(argument, before, clause)
            arguments.append(argument)
        literals, helpers = self._body((*body, *before), clause, name)
        made += helpers
        declared = self.declared[head.relation]
        if "eqrel" in declared.tags:
            name = self._pairs(declared)
        values = [
            self._value(argument, self._column_type(head.relation, place), clause)
            for place, argument in enumerate(arguments)
        ]
        extreme = self.extremes.get(head.relation)
        if extreme is not None and extreme.column < len(values):
            value = values[extreme.column]
            if not isinstance(value, syntax.VariableNode):
                column = plain_name(declared.columns[extreme.column].name)
                variable = syntax.VariableNode(clause.fresh(column), value.span)
                literals = (*literals, syntax.ComparisonNode("=", variable, value, value.span))
                value = variable
            values[extreme.column] = syntax.AggregateNode(extreme.function, value, False, value.span)
        atom = syntax.AtomNode(name, tuple(values), None, None, head.span)
        origin = clause.origin
        yield from made
        yield syntax.RuleNode(None, atom, literals, origin.span, origin.text)

    def _body(
        self, body: tree.Body, clause: _Clause, name: str
    ) -> tuple[tuple[syntax.Literal, ...], list[syntax.Statement]]:
        """Return the literals of a conjunction, and the statements of relations that they need. ``name`` begins the
        names of these."""
        plain: list[tree.Literal] = []
        aggregates: list[tuple[str, tree.AggregateTerm]] = []
        for literal in body:
            plain += self._extracted(literal, aggregates, clause)
        made: list[syntax.Statement] = []
        found: list[syntax.Literal] = []
        results = {variable for variable, _ in aggregates}
        for place, literal in enumerate(plain):
            # What is bound without this literal, which may bind more.
            grounded = bound_in((*plain[:place], *plain[place + 1 :]), results) if _has_record(literal) else set()
            found += self._literal(literal, clause, grounded)
        for place, (variable, aggregate) in enumerate(aggregates):
            others = {other for index, (other, _) in enumerate(aggregates) if index != place}
            outer = bound_in(tuple(plain), others)
            literal_, helpers = self._aggregate(variable, aggregate, tuple(plain), outer, clause, name)
            made += helpers
            found.append(literal_)
        if not found and body:
            return (), made
        truths = [literal for literal in found if _is_true(literal)]
        if truths and len(truths) < len(found):
            found = [literal for literal in found if not _is_true(literal)]
        return tuple(found), made

    # ---- aggregates ------------------------------------------------------------------------------------------------

    def _extracted(
        self, literal: tree.Literal, found: list[tuple[str, tree.AggregateTerm]], clause: _Clause
    ) -> list[tree.Literal]:
        """Return a literal with variables instead of aggregates, which are added to ``found``; none for a literal that
        only says which variable has the value of an aggregate."""
        if isinstance(literal, tree.ComparisonLiteral) and literal.op == "=" and not literal.negated:
            for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(one, tree.VariableTerm) and isinstance(other, tree.AggregateTerm):
                    found.append((one.name, other))
                    return []
        extra: list[tree.Literal] = []

        def without(argument: tree.Argument) -> tree.Argument:
            return self._without_aggregates(argument, extra, clause)

        match literal:
            case tree.AtomLiteral():
                literal = replace(literal, arguments=tuple(map(without, literal.arguments)))
            case tree.ComparisonLiteral():
                literal = replace(literal, left=without(literal.left), right=without(literal.right))
            case tree.NegationLiteral() if isinstance(literal.literal, tree.AtomLiteral):
                inner = literal.literal
                literal = replace(literal, literal=replace(inner, arguments=tuple(map(without, inner.arguments))))
        for equality in extra:
            self._extracted(equality, found, clause)
        return [literal]

    def _without_aggregates(
        self, argument: tree.Argument, before: list[tree.Literal], clause: _Clause
    ) -> tree.Argument:
        """Return an argument with variables instead of aggregates; what they are equal to is added to ``before``."""
        match argument:
            case tree.AggregateTerm():
                variable = tree.VariableTerm(clause.fresh(argument.function), argument.span)
                before.append(tree.ComparisonLiteral("=", variable, argument, argument.span))
                return variable
            case tree.CallTerm():
                inner = tuple(self._without_aggregates(a, before, clause) for a in argument.arguments)
                return replace(argument, arguments=inner)
            case tree.RecordTerm() if argument.items is not None:
                items = tuple(self._without_aggregates(a, before, clause) for a in argument.items)
                return replace(argument, items=items)
        return argument

    def _aggregate(
        self,
        variable: str,
        given: tree.AggregateTerm,
        outer: tree.Body,
        grounded: set[str],
        clause: _Clause,
        name: str,
    ) -> tuple[syntax.Literal, list[syntax.Statement]]:
        """Return the literal that gives ``variable`` the value of an aggregate, and the relations that compute it."""
        span, origin = given.span, clause.origin
        target = variables_of((given.target,)) if given.target else set()
        shared = sorted((variables_of(given.body) & grounded) - target, key=_order(outer))
        if isinstance(given.target, tree.AggregateTerm) or has_aggregate((given.target,) if given.target else ()):
            raise NoEquivalent(
                "E0772", "an aggregate of aggregates is not supported", span, "compute the inner one in a relation"
            )
        inner_clause = _Clause(origin, {plain_name(v) for v in variables_of(given.body) | target | set(shared)})
        inner_clause.types = dict(clause.types)
        self._note_types(inner_clause, given.body)
        made: list[syntax.Statement] = []
        found_bodies = conjunctions(tree.Alternatives((given.body,), span), 1)
        if found_bodies is None:
            # Tuples for which several alternatives hold would count several times.
            help = "write a relation with a rule for each alternative, and aggregate over that"
            raise NoEquivalent("E0772", "an aggregate over alternatives is not supported", span, help)
        (body,) = found_bodies
        # The inner variables must be bound inside; those of the outer rule that are not are bound by its tuples.
        missing = [v for v in shared if v not in bound_in(body, set())]
        if missing:
            context, helpers = self._context(shared, outer, clause, name)
            made += helpers
            body = (context, *body)
        key = shape(given), tuple(shared), origin.span
        known = None if missing else self.aggregated.get(key)
        helper = known or self._helper(f"{name}_{given.function}")
        if not missing:
            self.aggregated[key] = helper
        literals, helpers = self._body(body, inner_clause, helper) if known is None else ((), [])
        made += helpers
        group = tuple(syntax.VariableNode(plain_name(v), span) for v in shared)
        value = None if given.target is None else self._value(given.target, "", inner_clause)
        aggregate = syntax.AggregateNode(_AGGREGATES[given.function], value, False, span)
        head = syntax.AtomNode(helper, (*group, aggregate), None, None, span)
        purpose = f"for {name}"
        if known is None:
            made.append(syntax.RuleNode(None, head, literals, origin.span, origin.text, purpose))
        result = syntax.VariableNode(plain_name(variable), span)
        found = syntax.AtomNode(helper, (*group, result), None, None, span)
        if given.function not in ("count", "sum"):
            return found, made
        is_float = given.target is not None and self._kind(given.target, inner_clause) == "float"
        zero = syntax.ConstantNode(_FLOAT_ZERO, "float", span) if is_float else syntax.ConstantNode(0, "int", span)
        none = syntax.NegationNode(replace(found, arguments=(*group, syntax.WildcardNode(span))), span)
        empty = (none, syntax.ComparisonNode("=", result, zero, span))
        return syntax.Disjunction(((found,), empty), span), made

    def _context(
        self, shared: Sequence[str], outer: tree.Body, clause: _Clause, name: str
    ) -> tuple[tree.AtomLiteral, list[syntax.Statement]]:
        """Return an atom of a relation with the values of variables of the outer rule, and the rule that derives it."""
        helper = self._helper(f"{name}_for")
        literals, helpers = self._body(outer, clause, helper)
        span = clause.origin.span
        group = tuple(syntax.VariableNode(plain_name(v), span) for v in shared)
        head = syntax.AtomNode(helper, group, None, None, span)
        rule = syntax.RuleNode(None, head, literals, span, clause.origin.text, f"for {name}")
        # The name has no dot and no type, so it stays as it is.
        self.names[helper] = helper
        return tree.AtomLiteral(helper, tuple(tree.VariableTerm(v, span) for v in shared), span), [*helpers, rule]

    # ---- literals --------------------------------------------------------------------------------------------------

    def _literal(self, literal: tree.Literal, clause: _Clause, grounded: set[str]) -> list[syntax.Literal]:
        """Return the literals that say what a literal does."""
        match literal:
            case tree.AtomLiteral():
                return self._atom(literal, clause)
            case tree.ComparisonLiteral():
                return self._comparison(literal, clause, grounded)
            case tree.TruthLiteral():
                return [_truth(literal.value, literal.span)]
            case tree.Alternatives():
                parts = []
                for part in literal.alternatives:
                    parts.append(tuple(made for inner in part for made in self._literal(inner, clause, grounded)))
                if len(parts) == 1:
                    return list(parts[0])
                return [syntax.Disjunction(tuple(parts), literal.span)]
            case tree.NegationLiteral(literal=tree.AtomLiteral() as atom):
                self._known(atom)
                arguments = tuple(
                    self._value(argument, self._column_type(atom.relation, place), clause)
                    for place, argument in enumerate(atom.arguments)
                )
                made = syntax.AtomNode(self._name(atom.relation), arguments, None, None, atom.span)
                return [syntax.NegationNode(made, literal.span)]
            case tree.NegationLiteral():
                return self._literal(positive(literal), clause, grounded)

    def _known(self, atom: tree.AtomLiteral) -> None:
        """Refuse an atom of a relation that is not declared."""
        if atom.relation not in self.declared and atom.relation not in self.names:
            self._unknown(atom.relation, atom.span)
            raise LeftOut

    def _atom(self, atom: tree.AtomLiteral, clause: _Clause) -> list[syntax.Literal]:
        """Return an atom of a body, and what its records consist of."""
        self._known(atom)
        further: list[syntax.Literal] = []
        arguments: list[syntax.Expression] = []
        for place, argument in enumerate(atom.arguments):
            kind = self._column_type(atom.relation, place)
            if isinstance(argument, tree.RecordTerm) and argument.items is not None:
                variable = syntax.VariableNode(clause.fresh(f"{_word(kind)}"), argument.span)
                further += self._unpacked(argument, variable, kind, clause)
                arguments.append(variable)
            else:
                arguments.append(self._value(argument, kind, clause))
        name = self._name(atom.relation)
        return [syntax.AtomNode(name, tuple(arguments), None, None, atom.span), *further]

    def _comparison(self, given: tree.ComparisonLiteral, clause: _Clause, grounded: set[str]) -> list[syntax.Literal]:
        span = given.span
        if given.op in ("match", "contains"):
            part, text = (self._value(side, "symbol", clause) for side in (given.left, given.right))
            test = text_test(given.op, part, text, span)
            if isinstance(test, syntax.AtomNode):
                return [syntax.NegationNode(test, span) if given.negated else test]
            return [replace(test, op="!=") if given.negated else test]
        op = _FLIPPED[given.op] if given.negated else given.op
        kinds = [self._type_of(side, clause) for side in (given.left, given.right)]
        kind = next((k for k in kinds if k), "")
        if op == "=":
            for one, other in ((given.left, given.right), (given.right, given.left)):
                if (
                    isinstance(one, tree.RecordTerm)
                    and one.items is not None
                    and isinstance(other, tree.VariableTerm)
                    and other.name in grounded
                ):
                    variable = syntax.VariableNode(plain_name(other.name), other.span)
                    return self._unpacked(one, variable, kind, clause)
        left, right = (self._value(side, kind, clause) for side in (given.left, given.right))
        return [syntax.ComparisonNode(op, left, right, span)]

    # ---- records ---------------------------------------------------------------------------------------------------

    def _unpacked(
        self, record: tree.RecordTerm, variable: syntax.VariableNode, kind: str, clause: _Clause
    ) -> list[syntax.Literal]:
        """Return the literals that say that a variable, which is bound, is a record of these items."""
        span = record.span
        layout = self.types.layout(kind, span)
        assert record.items is not None
        self._check_size(record, layout, kind)
        size = syntax.CallNode("size", (variable,), span)
        op = ">=" if layout.records else "="
        found: list[syntax.Literal] = [syntax.ComparisonNode(op, size, _int(layout.least, span), span)]
        place: syntax.Expression = _int(1, span)
        order = [*layout.values, *layout.records]
        while order and isinstance(record.items[order[-1]], tree.WildcardTerm):
            order.pop()
        for index in order:
            item, field_ = record.items[index], layout.fields[index]
            if index in layout.values:
                part = self._decoded(syntax.CallNode("element_at", (variable, place), span), layout, field_.type)
                place = _plus(place, _int(1, span))
            elif index in layout.sized:
                number = syntax.VariableNode(clause.fresh("size"), item.span)
                value = self._decoded(syntax.CallNode("element_at", (variable, place), span), layout, "number")
                found.append(syntax.ComparisonNode("=", number, value, item.span))
                place = _plus(place, _int(1, span))
                part = syntax.CallNode("slice", (variable, place, number), span)
                place = _plus(place, number)
            else:
                part = syntax.CallNode("slice", (variable, place, size), span)
            found += self._item(item, part, field_.type, clause)
        return found

    def _item(self, item: tree.Argument, part: syntax.Expression, kind: str, clause: _Clause) -> list[syntax.Literal]:
        """Return the literals that say that a part of a record is an item."""
        if isinstance(item, tree.WildcardTerm):
            return []
        if isinstance(item, tree.RecordTerm) and item.items is not None:
            inner = syntax.VariableNode(clause.fresh(_word(kind)), item.span)
            equal = syntax.ComparisonNode("=", inner, part, item.span)
            return [equal, *self._unpacked(item, inner, kind, clause)]
        return [syntax.ComparisonNode("=", self._value(item, kind, clause), part, item.span)]

    def _decoded(self, part: syntax.Expression, layout: RecordLayout, kind: str) -> syntax.Expression:
        """Return the value of an element of a list."""
        if layout.element == "string" and self.types.kind(kind) != "symbol":
            return syntax.CallNode("int", (part,), part.span)
        return part

    def _encoded(self, value: syntax.Expression, layout: RecordLayout, kind: str) -> syntax.Expression:
        """Return the element of a list for a value."""
        if layout.element == "string" and self.types.kind(kind) != "symbol":
            return syntax.CallNode("string", (value,), value.span)
        return value

    def _packed(self, record: tree.RecordTerm, kind: str, clause: _Clause) -> syntax.Expression:
        """Return the value of a record."""
        span = record.span
        layout = self.types.layout(kind, span)
        if record.items is None:
            return syntax.ListNode((), span)
        self._check_size(record, layout, kind)
        values = [self._value(i, f.type, clause) for i, f in zip(record.items, layout.fields, strict=True)]
        items = [self._encoded(values[index], layout, layout.fields[index].type) for index in layout.values]
        made: syntax.Expression | None = None
        for index in layout.records:
            value = values[index]
            size: syntax.Expression = syntax.CallNode("size", (value,), span)
            if isinstance(value, syntax.ListNode):
                size = _int(len(value.items), span)
            if index in layout.sized:
                items.append(self._encoded(size, layout, "number"))
            if isinstance(value, syntax.ListNode):
                items += value.items
            else:
                made, items = _joined(_joined(made, items, span), value, span), []
        return _joined(made, items, span) or syntax.ListNode((), span)

    def _check_size(self, record: tree.RecordTerm, layout: RecordLayout, kind: str) -> None:
        """Refuse a record with another number of items than its type has fields."""
        given = len(record.items or ())
        if given != len(layout.fields):
            message = f"a record of type `{kind}` has {counted(len(layout.fields), 'field')}, not {given}"
            raise NoEquivalent("E0769", message, record.span)

    # ---- values ----------------------------------------------------------------------------------------------------

    def _value(self, argument: tree.Argument, kind: str, clause: _Clause) -> syntax.Expression:
        """Return the expression of an argument; ``kind`` is the type that it should have, empty if that is unknown."""
        span = argument.span
        match argument:
            case tree.VariableTerm():
                return syntax.VariableNode(plain_name(argument.name), span)
            case tree.WildcardTerm():
                return syntax.WildcardNode(span)
            case tree.RecordTerm():
                return self._packed(argument, kind, clause)
            case tree.ConstantTerm():
                return _constant(argument, self.types.kind(kind))
            case tree.CallTerm():
                kinds = tuple(self._kind(inner, clause) for inner in argument.arguments)
                values = tuple(self._value(inner, "", clause) for inner in argument.arguments)
                return called(argument.function, values, kinds, span)
            case tree.AggregateTerm():
                raise AssertionError(argument)

    def _kind(self, argument: tree.Argument, clause: _Clause) -> str:
        """Return the primitive type of an argument, empty if it is unknown."""
        if isinstance(argument, tree.ConstantTerm):
            return argument.kind
        if isinstance(argument, tree.CallTerm):
            if argument.function in ("to_float", "itof", "utof"):
                return "float"
            if argument.function in ("cat", "substr", "to_string"):
                return "symbol"
            if argument.function in ("strlen", "to_number", "ftoi", "utoi", "to_unsigned"):
                return "number"
            kinds = [self._kind(inner, clause) for inner in argument.arguments]
            return next((kind for kind in ("float", "symbol", "number") if kind in kinds), "")
        return self.types.kind(self._type_of(argument, clause))

    def _type_of(self, argument: tree.Argument, clause: _Clause) -> str:
        """Return the declared type of an argument, empty if it is unknown."""
        return clause.types.get(argument.name, "") if isinstance(argument, tree.VariableTerm) else ""

    def _column_type(self, relation: str, place: int) -> str:
        """Return the declared type of a column, empty if there is none."""
        columns = self.declared[relation].columns if relation in self.declared else ()
        return columns[place].type if place < len(columns) else ""

    def _note_types(self, clause: _Clause, literals: Iterable[tree.Literal]) -> None:
        """Note the types of variables that are arguments of atoms, or items of records in them."""
        for literal in literals:
            match literal:
                case tree.AtomLiteral():
                    for place, argument in enumerate(literal.arguments):
                        self._note(clause, argument, self._column_type(literal.relation, place))
                case tree.NegationLiteral():
                    self._note_types(clause, (literal.literal,))
                case tree.Alternatives():
                    for part in literal.alternatives:
                        self._note_types(clause, part)
                case tree.ComparisonLiteral(op="="):
                    for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                        self._note(clause, one, self._type_of(other, clause))

    def _note(self, clause: _Clause, argument: tree.Argument, kind: str) -> None:
        if not kind:
            return
        if isinstance(argument, tree.VariableTerm):
            clause.types.setdefault(argument.name, kind)
        elif isinstance(argument, tree.RecordTerm) and argument.items is not None:
            fields = self.types.fields(kind)
            for item, field_ in zip(argument.items, fields, strict=False):
                self._note(clause, item, field_.type)


def _extreme(given: tree.Subsumption) -> _Extreme | None:
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
                return _Extreme(differing[0], "max" if op.startswith("<") else "min")
    return None


def _order(outer: tree.Body) -> Callable[[str], tuple[int, str]]:
    """Return a key that sorts variables by where they first occur in a body."""
    found: dict[str, int] = {}
    for node in walk(outer):
        if isinstance(node, tree.VariableTerm):
            found.setdefault(node.name, len(found))
    return lambda name: (found.get(name, len(found)), name)


def _truth(value: bool, span: Span) -> syntax.ComparisonNode:
    """Return a comparison that always or never holds."""
    return syntax.ComparisonNode(
        "=", syntax.ConstantNode(1, "int", span), syntax.ConstantNode(1 if value else 0, "int", span), span
    )


def _is_true(literal: syntax.Literal) -> bool:
    return isinstance(literal, syntax.ComparisonNode) and literal == _truth(True, literal.span)


def _has_record(literal: tree.Literal) -> bool:
    return any(isinstance(node, tree.RecordTerm) for node in walk((literal,)))


def _int(value: int, span: Span) -> syntax.ConstantNode:
    return syntax.ConstantNode(value, "int", span)


def _plus(left: syntax.Expression, right: syntax.Expression) -> syntax.Expression:
    """Return a sum; that of two constants is a constant."""
    if isinstance(left, syntax.ConstantNode) and isinstance(right, syntax.ConstantNode):
        assert isinstance(left.value, int) and isinstance(right.value, int)
        return _int(left.value + right.value, left.span)
    return syntax.BinaryNode("+", left, right, left.span)


def _joined(
    made: syntax.Expression | None, further: syntax.Expression | list[syntax.Expression], span: Span
) -> syntax.Expression | None:
    """Return a list with another one, or with further items, behind it."""
    if isinstance(further, list):
        if not further:
            return made
        further = syntax.ListNode(tuple(further), span)
    return further if made is None else syntax.BinaryNode("++", made, further, span)


def _word(kind: str) -> str:
    """Return the name of a variable for a record of a type."""
    name = plain_name(kind.rpartition(".")[2])
    return name[:1].lower() + name[1:] if kind else "record"


def _constant(given: tree.ConstantTerm, kind: str) -> syntax.ConstantNode:
    """Return a constant; a whole number in a float column is a float."""
    match given.value:
        case str():
            return syntax.ConstantNode(given.value, "string", given.span)
        case int() if kind != "float":
            return syntax.ConstantNode(given.value, "int", given.span)
    return syntax.ConstantNode(Decimal(given.value), "float", given.span)
