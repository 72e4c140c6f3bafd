"""Replace path literals with atoms of relations that hold the pairs of nodes they connect.

Before::

    domain person(X).
    r1: near(X, Y) :- (knows | ^knows)+(X, Y).
    r2: chain(X, Y) :- (boss / knows*)(X, Y), person(X).

After (each closure is a relation that records what it is the closure of)::

    r1: near(X, Y) :- inv_knows_or_knows_plus(X, Y).
    r2: chain(X, Y) :- boss_then_knows_star(X, Y), person(X).

    inv_knows_or_knows_plus(x, y) :- knows(y, x).
    inv_knows_or_knows_plus(x, y) :- knows(x, y).
    inv_knows_or_knows_plus(x, y) :- inv_knows_or_knows_plus(x, z), knows(y, z).
    inv_knows_or_knows_plus(x, y) :- inv_knows_or_knows_plus(x, z), knows(z, y).
    knows_star(x, y) :- knows(x, y).
    knows_star(x, y) :- knows_star(x, z), knows(z, y).
    knows_star(x, x) :- person(x).
    boss_then_knows_star(x, y) :- boss(x, z1), knows_star(z1, y).

A path literal denotes a set of pairs, regardless of how many paths connect two nodes (Bonifati et al. 2018, section
2.2), so every path gets its own relation; paths with the same normal form share one. Inverses are pushed down to the
relations, where they swap the arguments of an atom. A closure with a constant end has only the nodes it reaches.

A path that can be empty connects every node of the domain to itself. Without a domain it is split into the non-empty
path and the equality of its ends, which other literals must then bind.

Before::

    r3: p(X, Y) :- q(X), knows*(X, Y).

After::

    r3: p(X, Y) :- q(X), (knows_plus(X, Y), X != Y ; X = Y).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ..diagnostics import Diagnostics, listed
from ..ir import syntax
from ..ir.rule_origin import Making
from ..ir.syntax_printer import path_text, rule_text
from ..naming import unused
from ..source import Span
from .split_inputs import COUNTING
from .syntax_names import literal_names, variable_names

_LONGEST_NAME = 40
"""The maximum length of the name of a path's relation."""


def expand_paths(program: syntax.SyntaxProgram, diagnostics: Diagnostics) -> syntax.SyntaxProgram:
    """Return the program without path literals; report E0409 and E0410."""
    return _Expansion(program, diagnostics).program()


# ---- paths in normal form ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Edge:
    """The pairs of a relation, swapped if ``inverse``."""

    relation: str
    inverse: bool
    span: Span

    def __str__(self) -> str:
        return f"{'^' * self.inverse}{self.relation}"


@dataclass(frozen=True)
class _Identity:
    """The pairs of each node of the domain with itself."""

    span: Span

    def __str__(self) -> str:
        return "="


@dataclass(frozen=True)
class _Chain:
    """The composition of two or more paths."""

    parts: tuple[_Normal, ...]
    span: Span

    def __str__(self) -> str:
        return "/".join(f"({part})" if isinstance(part, _Either) else str(part) for part in self.parts)


@dataclass(frozen=True)
class _Either:
    """The union of two or more paths, sorted by their texts."""

    options: tuple[_Normal, ...]
    span: Span

    def __str__(self) -> str:
        return "|".join(map(str, self.options))


@dataclass(frozen=True)
class _Closure:
    """The transitive closure of ``base``; if ``reflexive``, also every node of the domain paired with itself."""

    base: _Normal
    reflexive: bool
    span: Span

    def __str__(self) -> str:
        base = f"({self.base})" if isinstance(self.base, _Chain | _Either) else str(self.base)
        return f"{base}{'*' if self.reflexive else '+'}"


_Normal = _Edge | _Identity | _Chain | _Either | _Closure


def _either(options: Iterable[_Normal], span: Span) -> _Normal:
    """Return the union of ``options``, flattened and without duplicates."""
    flat = [inner for option in options for inner in (option.options if isinstance(option, _Either) else (option,))]
    different = {str(option): option for option in flat}
    if len(different) == 1:
        return flat[0]
    return _Either(tuple(different[text] for text in sorted(different)), span)


def _chain(parts: Sequence[_Normal], span: Span) -> _Normal:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, _Chain) else (part,))]
    return flat[0] if len(flat) == 1 else _Chain(tuple(flat), span)


def _closure(base: _Normal, reflexive: bool, span: Span) -> _Normal:
    """Return the closure of ``base``, with inner closures and identities merged: (a+ | b)+ is (a | b)+."""
    options: list[_Normal] = []
    for option in base.options if isinstance(base, _Either) else (base,):
        reflexive = reflexive or isinstance(option, _Identity) or (isinstance(option, _Closure) and option.reflexive)
        if isinstance(option, _Closure):
            options.append(option.base)
        elif not isinstance(option, _Identity):
            options.append(option)
    return _Closure(_either(options, span), reflexive, span)


# ---- the pass ------------------------------------------------------------------------------------------------------


class _Expansion:
    """The expansion of one program: the relations and rules made for its paths so far."""

    def __init__(self, program: syntax.SyntaxProgram, diagnostics: Diagnostics) -> None:
        self.source = program
        self.diagnostics = diagnostics
        self.domains = [statement for statement in program.statements if isinstance(statement, syntax.Domain)]
        relations = (each for each in program.statements if isinstance(each, syntax.RelationDeclaration))
        self.multisets = {relation.name for relation in relations if relation.is_multiset}
        self.counting = False  # whether the copies that the body of the current rule matches count
        self.taken = set(_relation_names(program))
        self.made: list[syntax.MadeRelation] = []
        self.rules: list[syntax.RuleNode] = []
        self.edges: dict[str, _Edge] = {}  # keyed by the text of the path's normal form

    def program(self) -> syntax.SyntaxProgram:
        """Return the program without path literals; the generated rules follow its statements."""
        rules = [statement for statement in self.source.statements if isinstance(statement, syntax.RuleNode)]
        for rule in rules:  # First, since closures from a constant use the closure of all pairs if it exists.
            for literal in () if self._is_rule(rule) else _path_literals(rule.body):
                if not any(isinstance(end, syntax.ConstantNode) for end in (literal.left, literal.right)):
                    self._edge(self._normal(literal.path)[0])
        statements = [
            self._rule(statement) if isinstance(statement, syntax.RuleNode) else statement
            for statement in self.source.statements
        ]
        return replace(self.source, statements=(*statements, *self.rules), made=tuple(self.made))

    # ---- normal form -----------------------------------------------------------------------------------------------

    def _normal(self, path: syntax.Path, inverse: bool = False) -> tuple[_Normal, bool]:
        """Return the normal form of a path or of its inverse, and whether the path can also be empty.

        With a domain, the normal form itself covers empty paths.
        """
        span = path.span
        match path:
            case syntax.PathStep():
                return _Edge(path.relation, inverse, span), False
            case syntax.PathInverse():
                return self._normal(path.path, not inverse)
            case syntax.PathChoice():
                options = [self._normal(option, inverse) for option in path.options]
                return _either((normal for normal, _ in options), span), any(empty for _, empty in options)
            case syntax.PathSequence():
                return self._sequence(path, inverse)
            case syntax.PathRepeat():
                normal, empty = self._normal(path.path, inverse)
                empty = empty or path.op != "+"
                if self.domains:
                    if path.op == "?" and not isinstance(normal, _Closure):
                        return _either((normal, _Identity(span)), span), False
                    return _closure(normal, empty, span), False
                return (normal if path.op == "?" else _closure(normal, False, span)), empty

    def _sequence(self, path: syntax.PathSequence, inverse: bool) -> tuple[_Normal, bool]:
        parts = [self._normal(part, inverse) for part in path.parts]
        if inverse:
            parts.reverse()
        empties = [empty for _, empty in parts]
        forms: list[_Normal] = []
        for present in product(*((True, False) if empty else (True,) for empty in empties)):
            chosen = [normal for (normal, _), there in zip(parts, present, strict=True) if there]
            if chosen:
                forms.append(_chain(chosen, path.span))
        return _either(forms, path.span), all(empties)

    # ---- relations -------------------------------------------------------------------------------------------------

    def _edge(self, normal: _Normal) -> _Edge:
        """Return the relation that holds the pairs of a path; make it if it does not exist."""
        if isinstance(normal, _Edge):
            return normal
        key = str(normal)
        if key not in self.edges:
            if isinstance(normal, _Closure):
                steps = self._steps(normal.base)
                name = self._name(key)
                self.edges[key] = _Edge(name, False, normal.span)
                self._make_closure(name, normal, steps)
            else:
                bodies = self._bodies(normal)
                name = self._name(key)
                self.edges[key] = _Edge(name, False, normal.span)
                self._make_union(name, normal, bodies)
        return replace(self.edges[key], span=normal.span)

    def _set_of(self, normal: _Edge) -> _Edge:
        """Return the relation of the pairs of a single step over a multiset, whose copies count in an aggregate
        otherwise; make it if it does not exist."""
        key = f"{normal} pairs"
        if key not in self.edges:
            self.edges[key] = _Edge(self._name(key), False, normal.span)
            self._make_union(self.edges[key].relation, normal, [[normal]])
        return replace(self.edges[key], span=normal.span)

    def _steps(self, base: _Normal) -> list[_Edge]:
        """Return the relations whose union a closure with this base follows."""
        return [self._edge(option) for option in (base.options if isinstance(base, _Either) else (base,))]

    def _bodies(self, normal: _Normal) -> list[list[_Edge | _Identity]]:
        """Return the bodies, as chains of relations, of a path that is not itself a closure."""
        bodies: list[list[_Edge | _Identity]] = []
        for option in normal.options if isinstance(normal, _Either) else (normal,):
            if isinstance(option, _Identity):
                bodies.append([option])
                continue
            parts = option.parts if isinstance(option, _Chain) else (option,)
            bodies.append([self._edge(part) for part in parts])
        return bodies

    def _name(self, key: str) -> str:
        """Return an unused name for the relation of a path; long names are cut and end in a hash of the path."""
        words = {"/": " then ", "|": " or ", "^": " inv ", "+": " plus ", "*": " star ", "=": " same "}
        text = "".join(words.get(character, " " if character in "()" else character) for character in key)
        name = re.sub(r"\W+", "_", text).strip("_")
        if len(name) > _LONGEST_NAME:
            digest = hashlib.sha256(key.encode()).hexdigest()[:6]
            name = f"{name[: _LONGEST_NAME - 7].rstrip('_')}_{digest}"
        name = unused(name, self.taken)
        self.taken.add(name)
        return name

    def _make_closure(self, name: str, normal: _Closure, steps: list[_Edge]) -> None:
        span = normal.span
        x, y, z = (syntax.VariableNode(text, span) for text in "xyz")
        why = f"the closure `{normal}`"
        edges = tuple(syntax.ClosureStep(step.relation, step.inverse) for step in steps)
        self.made.append(syntax.MadeRelation(name, why, span, edges, normal.reflexive))
        self._make_rules(name, why, span, (x, y), [[_atom(step, x, y)] for step in steps])
        along = syntax.AtomNode(name, (x, z), None, None, span)
        self._make_rules(name, why, span, (x, y), [[along, _atom(step, z, y)] for step in steps])
        if normal.reflexive:
            self._make_rules(name, why, span, (x, x), [[domain] for domain in self._nodes(x)])

    def _make_union(self, name: str, normal: _Normal, bodies: list[list[_Edge | _Identity]]) -> None:
        why = f"the path `{normal}`"
        self.made.append(syntax.MadeRelation(name, why, normal.span))
        for body in bodies:
            left, right = syntax.VariableNode("x", normal.span), syntax.VariableNode("y", normal.span)
            for literals, head in self._joined(body, left, right):
                self._make_rules(name, why, normal.span, head, [literals])

    def _joined(
        self, body: list[_Edge | _Identity], left: syntax.VariableNode, right: syntax.VariableNode
    ) -> Iterable[tuple[list[syntax.Literal], tuple[syntax.VariableNode, syntax.VariableNode]]]:
        """Yield the literals of a chain and its two ends; the identity yields one pair per domain."""
        if len(body) == 1 and isinstance(body[0], _Identity):
            for domain in self._nodes(left):
                yield [domain], (left, left)
            return
        inner = [unused(f"z{place}", (left.name, right.name)) for place in range(1, len(body))]
        ends = [
            left,
            *(syntax.VariableNode(name, edge.span) for name, edge in zip(inner, body[1:], strict=True)),
            right,
        ]
        atoms: list[syntax.Literal] = []
        for place, edge in enumerate(body):
            assert isinstance(edge, _Edge), "an identity inside a chain is a relation of its own"
            atoms.append(_atom(edge, ends[place], ends[place + 1]))
        yield atoms, (left, right)

    def _nodes(self, node: syntax.VariableNode) -> Iterable[syntax.AtomNode]:
        """Yield, for each domain, the atom that requires ``node`` to belong to it."""
        for domain in self.domains:
            arguments = tuple(
                node if isinstance(argument, syntax.VariableNode) else argument for argument in domain.atom.arguments
            )
            yield replace(domain.atom, arguments=arguments)

    def _make_rules(
        self, name: str, why: str, span: Span, head: Sequence[syntax.Expression], bodies: list[list[syntax.Literal]]
    ) -> None:
        for body in bodies:
            rule = syntax.RuleNode(
                None,
                syntax.AtomNode(name, tuple(head), None, None, span),
                tuple(body),
                span,
                "",
                f"made for {why}",
                Making.PATH,
            )
            self.rules.append(replace(rule, text=rule_text(rule)))

    # ---- closures from a constant ----------------------------------------------------------------------------------

    def _reached(self, normal: _Closure, literal: syntax.PathLiteral) -> syntax.AtomNode | None:
        """Return an atom for the nodes that a closure connects to its constant end; None if neither end is constant or
        the relation of all pairs exists anyway."""
        constant, other, backward = literal.left, literal.right, False
        if not isinstance(constant, syntax.ConstantNode):
            constant, other, backward = literal.right, literal.left, True
        if not isinstance(constant, syntax.ConstantNode) or str(normal) in self.edges:
            return None
        if backward:
            normal = _turned(normal)
        key = f"{normal} from {constant.kind} {constant.value!r}"
        if key not in self.edges:
            steps = self._steps(normal.base)
            self.edges[key] = _Edge(self._name(f"{normal} from {constant.value}"), False, normal.span)
            self._make_reached(self.edges[key].relation, normal, steps, constant)
        return syntax.AtomNode(self.edges[key].relation, (other,), None, None, literal.span)

    def _make_reached(self, name: str, normal: _Closure, steps: list[_Edge], start: syntax.ConstantNode) -> None:
        span = normal.span
        node, before = syntax.VariableNode("y", span), syntax.VariableNode("z", span)
        why = f"the nodes that `{normal}` reaches from one"
        self.made.append(syntax.MadeRelation(name, why, span))
        self._make_rules(name, why, span, (node,), [[_atom(step, start, node)] for step in steps])
        along = syntax.AtomNode(name, (before,), None, None, span)
        self._make_rules(name, why, span, (node,), [[along, _atom(step, before, node)] for step in steps])
        if normal.reflexive:
            same = syntax.ComparisonNode("=", node, start, span)
            self._make_rules(name, why, span, (node,), [[domain, same] for domain in self._nodes(node)])

    # ---- literals --------------------------------------------------------------------------------------------------

    def _rule(self, rule: syntax.RuleNode) -> syntax.RuleNode:
        if self._is_rule(rule):
            return self._inlined(rule)
        aggregates = (a for a in rule.head.arguments if isinstance(a, syntax.AggregateNode))
        self.counting = any(a.function in COUNTING and not a.distinct for a in aggregates)
        self.variables = {*variable_names(rule.head.arguments), *(n for x in rule.body for n in literal_names(x))}
        return replace(rule, body=self._conjunction(rule.body, _bound(rule.body)))

    def _is_rule(self, rule: syntax.RuleNode) -> bool:
        """Return whether the head of a rule holds the pairs of a path, which then needs no relation of its own."""
        match rule:
            case syntax.RuleNode(
                head=syntax.AtomNode(arguments=(syntax.VariableNode() as x, syntax.VariableNode() as y)),
                body=(
                    syntax.PathLiteral(
                        left=syntax.VariableNode() as left, right=syntax.VariableNode() as right
                    ) as literal,
                ),
            ) if x.name != y.name and {x.name, y.name} == {left.name, right.name}:
                normal, empty = self._normal(literal.path)
                return not empty and isinstance(normal, _Chain | _Either)
        return False

    def _inlined(self, rule: syntax.RuleNode) -> syntax.RuleNode:
        """Return the rule with the chains of its path as its body."""
        (literal,) = rule.body
        assert isinstance(literal, syntax.PathLiteral)
        left, right = literal.left, literal.right
        assert isinstance(left, syntax.VariableNode) and isinstance(right, syntax.VariableNode)
        bodies: list[tuple[syntax.Literal, ...]] = []
        for body in self._bodies(self._normal(literal.path)[0]):
            for literals, (_, end) in self._joined(body, left, right):
                same = () if end is not left else (syntax.ComparisonNode("=", left, right, literal.span),)
                bodies.append((*literals, *same))
        return replace(rule, body=bodies[0] if len(bodies) == 1 else (syntax.Disjunction(tuple(bodies), literal.span),))

    def _conjunction(self, body: Sequence[syntax.Literal], bound: set[str]) -> tuple[syntax.Literal, ...]:
        """Return a body without path literals; ``bound`` has the variables that its other literals bind."""
        bound = self._bound_through_paths(body, bound)
        result: list[syntax.Literal] = []
        for literal in body:
            match literal:
                case syntax.PathLiteral():
                    result += self._positive(literal, bound)
                case syntax.NegationNode(atom=syntax.PathLiteral()):
                    result += self._negated(literal)
                case syntax.Disjunction():
                    alternatives = tuple(self._conjunction(a, bound | _bound(a)) for a in literal.alternatives)
                    result.append(replace(literal, alternatives=alternatives))
                case _:
                    result.append(literal)
        return tuple(result)

    def _bound_through_paths(self, body: Sequence[syntax.Literal], bound: set[str]) -> set[str]:
        """Return ``bound`` and the ends that paths bind; a possibly empty path binds one if its other end is bound."""
        bound = set(bound)
        while True:
            before = len(bound)
            for literal in body:
                if isinstance(literal, syntax.PathLiteral) and (
                    _one_end_bound(literal, bound) or not self._normal(literal.path)[1]
                ):
                    ends = (literal.left, literal.right)
                    bound |= {end.name for end in ends if isinstance(end, syntax.VariableNode)}
            if len(bound) == before:
                return bound

    def _positive(self, literal: syntax.PathLiteral, bound: set[str]) -> list[syntax.Literal]:
        normal, empty = self._normal(literal.path)
        if not empty:
            return [self._literal(normal, literal)]
        if not _one_end_bound(literal, bound):
            ends = listed(f"`{name}`" for name in variable_names([literal.left, literal.right]))
            message = f"the path `{path_text(literal.path)}` can be empty and then binds nothing"
            message += f", but no other literal binds {ends}" if ends else ""
            help = "bind one of its ends, declare the nodes with `domain node(X).`, or use `+` instead of `*`"
            if self.source.complete:  # Otherwise the unreadable statements may declare a domain.
                self.diagnostics.report("E0409", message, literal.span, help=help)
            return self._binding(normal, literal)
        left, right = self._end(literal.left), self._end(literal.right)
        there = self._literal(normal, replace(literal, left=left, right=right))
        different = syntax.ComparisonNode("!=", left, right, literal.span)
        same: tuple[syntax.Literal, ...] = (syntax.ComparisonNode("=", left, right, literal.span),)
        if isinstance(literal.left, syntax.WildcardNode) or isinstance(literal.right, syntax.WildcardNode):
            same = ()
        return [syntax.Disjunction(((there, different), same), literal.span)]

    def _binding(self, normal: _Normal, literal: syntax.PathLiteral) -> list[syntax.Literal]:
        """Return literals that bind all variables of a path literal, so that no further errors are reported."""
        ends: list[syntax.Expression] = []
        same: list[syntax.Literal] = []
        for end in (literal.left, literal.right):
            names = [] if isinstance(end, syntax.VariableNode | syntax.WildcardNode) else [*variable_names([end])]
            ends.append(self._end(syntax.WildcardNode(end.span)) if names else end)
            same += [
                syntax.ComparisonNode("=", syntax.VariableNode(name, end.span), ends[-1], end.span) for name in names
            ]
        return [self._literal(normal, replace(literal, left=ends[0], right=ends[1])), *same]

    def _end(self, end: syntax.Expression) -> syntax.Expression:
        """Return an end of a path, with a fresh variable for a wildcard."""
        if not isinstance(end, syntax.WildcardNode):
            return end
        name = unused("any", self.variables)
        self.variables.add(name)
        return syntax.VariableNode(name, end.span)

    def _negated(self, negation: syntax.NegationNode) -> list[syntax.Literal]:
        literal = negation.atom
        assert isinstance(literal, syntax.PathLiteral)
        normal, empty = self._normal(literal.path)
        atom = self._literal(normal, literal)
        result: list[syntax.Literal] = [syntax.NegationNode(atom, negation.span)]
        if empty:
            if isinstance(literal.left, syntax.WildcardNode) or isinstance(literal.right, syntax.WildcardNode):
                message = f"the path `{path_text(literal.path)}` can be empty, so it connects every node to some node"
                help = "use `+` instead of `*`, or write a variable instead of `_`"
                self.diagnostics.report("E0410", message, negation.span, help=help)
                return result
            result.append(syntax.ComparisonNode("!=", literal.left, literal.right, negation.span))
        return result

    def _literal(self, normal: _Normal, literal: syntax.PathLiteral) -> syntax.AtomNode:
        """Return the atom for a path in normal form between the ends of ``literal``."""
        if isinstance(normal, _Closure):
            reached = self._reached(normal, literal)
            if reached is not None:
                return reached
        edge = self._edge(normal)
        if isinstance(normal, _Edge) and normal.relation in self.multisets and self.counting:
            edge = self._set_of(normal)
        return replace(_atom(edge, literal.left, literal.right), span=literal.span)


def _atom(edge: _Edge, left: syntax.Expression, right: syntax.Expression) -> syntax.AtomNode:
    arguments = (right, left) if edge.inverse else (left, right)
    return syntax.AtomNode(edge.relation, arguments, None, None, edge.span)


def _turned(normal: _Closure) -> _Closure:
    """Return the inverse of a closure."""

    def turn(node: _Normal) -> _Normal:
        match node:
            case _Edge():
                return replace(node, inverse=not node.inverse)
            case _Identity():
                return node
            case _Chain():
                return replace(node, parts=tuple(turn(part) for part in reversed(node.parts)))
            case _Either():
                return _either((turn(option) for option in node.options), node.span)
            case _Closure():
                return replace(node, base=turn(node.base))

    return replace(normal, base=turn(normal.base))


def _one_end_bound(literal: syntax.PathLiteral, bound: set[str]) -> bool:
    values = [end for end in (literal.left, literal.right) if not isinstance(end, syntax.WildcardNode)]
    return any(set(variable_names([end])) <= bound for end in values)


def _path_literals(body: Iterable[syntax.Literal]) -> Iterable[syntax.PathLiteral]:
    for literal in body:
        match literal:
            case syntax.PathLiteral():
                yield literal
            case syntax.NegationNode():
                yield from _path_literals([literal.atom])
            case syntax.Disjunction():
                for alternative in literal.alternatives:
                    yield from _path_literals(alternative)


def _relation_names(program: syntax.SyntaxProgram) -> Iterable[str]:
    """Yield the names of all relations that a program mentions."""

    def of_body(body: Iterable[syntax.Literal]) -> Iterable[str]:
        for literal in body:
            match literal:
                case syntax.AtomNode():
                    yield literal.relation
                case syntax.NegationNode():
                    yield from of_body([literal.atom])
                case syntax.Disjunction():
                    for alternative in literal.alternatives:
                        yield from of_body(alternative)
                case syntax.PathLiteral():
                    yield from of_path(literal.path)

    def of_path(path: syntax.Path) -> Iterable[str]:
        match path:
            case syntax.PathStep():
                yield path.relation
            case syntax.PathInverse() | syntax.PathRepeat():
                yield from of_path(path.path)
            case syntax.PathSequence(parts=inner) | syntax.PathChoice(options=inner):
                for one in inner:
                    yield from of_path(one)

    for statement in program.statements:
        match statement:
            case syntax.RelationDeclaration() | syntax.OutputDirective():
                yield statement.name
            case syntax.RuleNode():
                yield statement.head.relation
                yield from of_body(statement.body)


def _bound(body: Iterable[syntax.Literal]) -> set[str]:
    """Return the variables that the literals of a body other than paths may bind."""
    bound: set[str] = set()
    for literal in body:
        match literal:
            case syntax.AtomNode():
                bound |= set(variable_names(literal.arguments))
            case syntax.ComparisonNode(op="=" | ":="):
                bound |= {e.name for e in (literal.left, literal.right) if isinstance(e, syntax.VariableNode)}
            case syntax.Disjunction() if literal.alternatives:
                bound |= set.intersection(*(_bound(alternative) for alternative in literal.alternatives))
    return bound
