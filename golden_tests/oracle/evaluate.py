"""Evaluation from scratch over Python sets: what a maintained state must equal after every batch.

A derivation is a rule together with one tuple per positive body literal; relations are sets at the border of a stratum,
aggregates range over the bag of the derivations of all their rules. :func:`evaluate` gives the sets, :func:`counts` the
numbers of derivations, :func:`supports_ok` recounts the invariant of ranked support in a stored state.

Arithmetic is that of the language: ``int`` has 64 bits, ``int / int`` truncates toward zero, ``%`` takes the sign of
the dividend, the quotient of decimals is a float. A rule fails if there is a binding that satisfies its positive
literals, its negations and every condition that is defined on it, while some expression of the rule is undefined on it.

A null (None) is a value of a tuple like others, but equals nothing where tuples are joined or values compared, itself
included; only a comparison with the constant finds it. An expression of a null is null, and no condition on it holds,
except that a negated atom holds of a variable that is null. Aggregates leave out derivations whose value is null.
"""

from __future__ import annotations

import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from typing import Any

from .functions import Undefined
from .language import (
    Aggregate,
    Atom,
    Binary,
    Call,
    Comparison,
    Constant,
    Expression,
    ListOf,
    Literal,
    Negate,
    Negation,
    Path,
    Program,
    Row,
    Rule,
    Variable,
    Wildcard,
    variables,
)

Relations = Mapping[str, Set[Row] | Counter[Row]]
"""Tuples per relation, those of a multiset with their numbers of copies; a relation that is absent is empty."""


class ArithmeticFault(ArithmeticError):
    """Overflow or division by zero on a binding that no guard excludes; the message names the rule's line."""


class NotStratified(ValueError):
    """Negation through recursion."""


class CyclicGroups(ValueError):
    """A group of a recursion with ``sum``, ``count`` or ``avg`` depends on itself."""


class RoundLimit(RuntimeError):
    """A recursive stratum was still growing after :data:`ROUNDS` rounds: it invents values without end."""


class KeyViolation(ValueError):
    """Two tuples of a derived relation share its primary key."""


class OnlyFromEachOther(ValueError):
    """Some of the best values of a recursion have no finite proof by best values."""


ROUNDS = 5000

# ---- strata --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stratum:
    """One strongly connected component of the derived relations, names in order of first mention."""

    relations: tuple[str, ...]
    recursive: bool


def strata(program: Program) -> list[Stratum]:
    """The strata in topological order, each after all it reads.

    Raises :class:`NotStratified`. Aggregates inside recursion pass.
    """
    derived = [relation.name for relation in program.derived]
    reads: dict[str, list[str]] = {name: [] for name in derived}
    for relation in program.derived:
        if relation.path is not None:
            below = [*sorted(relation.path.relations), *(domain.relation for domain in program.domains)]
            reads[relation.name] += [name for name in below if name in reads]
    for rule in program.rules:
        for literal in rule.body:
            if not isinstance(literal, Comparison):
                read = literal.atom.relation if isinstance(literal, Negation) else literal.relation
                if read in reads:
                    reads[rule.head.relation].append(read)
    reach = {name: reachable(name, reads) for name in derived}
    order: list[Stratum] = []
    placed: set[str] = set()

    def place(name: str) -> None:
        if name in placed:
            return
        members = tuple(other for other in derived if other == name or (other in reach[name] and name in reach[other]))
        placed.update(members)
        for member in members:
            for below in reads[member]:
                place(below)
        order.append(Stratum(members, recursive=name in reach[name]))

    for name in derived:
        place(name)
    for stratum in order:
        for rule in rules_of(program, stratum):
            check_stratified(rule, stratum)
    return order


def reachable(name: str, reads: Mapping[str, list[str]]) -> set[str]:
    """Everything ``name`` reads directly or through others; ``name`` itself only if it lies on a cycle."""
    seen: set[str] = set()
    todo = list(reads[name])
    while todo:
        below = todo.pop()
        if below not in seen:
            seen.add(below)
            todo.extend(reads[below])
    return seen


def rules_of(program: Program, stratum: Stratum) -> list[Rule]:
    """The rules that define the stratum's relations."""
    return [rule for rule in program.rules if rule.head.relation in stratum.relations]


def check_stratified(rule: Rule, stratum: Stratum) -> None:
    """Raise :class:`NotStratified` if the rule negates its own stratum."""
    for literal in rule.body:
        if isinstance(literal, Negation) and literal.atom.relation in stratum.relations:
            raise NotStratified(f"{rule.line}: {rule.head.relation} negates {literal.atom.relation} of its own stratum")


# ---- values --------------------------------------------------------------------------------------------------------


EXACT = Context(prec=400, traps=[DivisionByZero, InvalidOperation, Overflow])


def compute(expression: Expression, binding: Mapping[str, Any]) -> Any:
    """The value of ``expression``, or an :class:`Undefined`."""
    match expression:
        case Variable(name):
            return binding[name]
        case Constant(value):
            return value
        case Negate(operand):
            value = compute(operand, binding)
            return value if value is None or isinstance(value, Undefined) else operate("-", 0, value)
        case Binary(op, left, right):
            one, other = compute(left, binding), compute(right, binding)
            if one is None or other is None:
                return None
            if isinstance(one, Undefined):
                return one
            if isinstance(other, Undefined):
                return other
            return operate(op, *alike(left, one, right, other))
        case ListOf(parts) | Call(_, parts):
            values = tuple(compute(part, binding) for part in parts)
            if any(value is None for value in values):
                return None
            lacking = next((value for value in values if isinstance(value, Undefined)), None)
            if lacking is not None or isinstance(expression, ListOf):
                return lacking or values
            assert expression.function is not None
            return expression.function(*values)
    raise AssertionError(expression)


def alike(left: Expression, one: Any, right: Expression, other: Any) -> tuple[Any, Any]:
    """Both values, made comparable: decimal with float is float, but a literal such as ``1.5`` follows the decimal."""
    if isinstance(one, Decimal) and isinstance(other, float):
        return (one, Decimal(right.text)) if isinstance(right, Constant) else (float(one), other)
    if isinstance(one, float) and isinstance(other, Decimal):
        return (Decimal(left.text), other) if isinstance(left, Constant) else (one, float(other))
    return one, other


def operate(op: str, left: Any, right: Any) -> Any:
    """``left op right``, or an :class:`Undefined` for overflow and division by zero."""
    if op == "++":
        return left + right
    if op in ("/", "%") and right == 0:
        return Undefined("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if op in ("/", "%") else 0
        match op:
            case "+":
                result = left + right
            case "-":
                result = left - right
            case "*":
                result = left * right
            case "/":
                result = quotient
            case _:
                result = left - quotient * right
        return result if -(2**63) <= result < 2**63 else Undefined("overflow")
    if isinstance(left, float) or isinstance(right, float) or op == "/":
        return operate_float(op, float(left), float(right))
    with localcontext(EXACT):
        one, other = Decimal(left), Decimal(right)
        return {"+": one + other, "-": one - other, "*": one * other}[op] if op != "%" else one % other


def operate_float(op: str, left: float, right: float) -> Any:
    """The same for doubles; a result that is not finite is undefined."""
    if op == "%":
        return math.fmod(left, right)
    result = {"+": left + right, "-": left - right, "*": left * right, "/": left / right if op == "/" else 0.0}[op]
    return result if math.isfinite(result) else Undefined("overflow")


NULL = Constant(None, "null")


def holds(comparison: Comparison, binding: Mapping[str, Any]) -> bool | Undefined:
    """Whether the comparison is true, false or undefined."""
    left, right = compute(comparison.left, binding), compute(comparison.right, binding)
    if NULL in (comparison.left, comparison.right):
        return (left is right is None) == (comparison.op == "=")
    if left is None or right is None:
        return False
    if isinstance(left, Undefined):
        return left
    if isinstance(right, Undefined):
        return right
    left, right = alike(comparison.left, left, comparison.right, right)
    match comparison.op:
        case "=":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


# ---- joins ---------------------------------------------------------------------------------------------------------


class Store:
    """The tuples of all relations, with an index per relation and set of bound columns, built when first asked for."""

    def __init__(self, relations: Mapping[str, Iterable[Row]]) -> None:
        """Copy the sets."""
        self.rows: defaultdict[str, set[Row]] = defaultdict(set, {name: set(rows) for name, rows in relations.items()})
        self.indexes: dict[tuple[str, tuple[int, ...]], defaultdict[Row, list[Row]]] = {}
        #: The numbers of copies, of multisets only.
        self.copies: dict[str, Counter[Row]] = {}

    def index(self, relation: str, columns: tuple[int, ...]) -> defaultdict[Row, list[Row]]:
        """Rows of ``relation`` by their values at ``columns``."""
        found = self.indexes.get((relation, columns))
        if found is None:
            found = defaultdict(list)
            for row in self.rows[relation]:
                found[tuple(row[c] for c in columns)].append(row)
            self.indexes[relation, columns] = found
        return found

    def matching(self, relation: str, columns: tuple[int, ...], key: Row) -> Iterable[Row]:
        """Rows of ``relation`` with ``key`` at ``columns``."""
        return self.index(relation, columns).get(key, ()) if columns else self.rows[relation]

    def add(self, relation: str, rows: Iterable[Row]) -> set[Row]:
        """Add rows; returns those that are new."""
        new = set(rows) - self.rows[relation]
        self.rows[relation] |= new
        for (name, columns), found in self.indexes.items():
            if name == relation:
                for row in new:
                    found[tuple(row[c] for c in columns)].append(row)
        return new

    def replace(self, relation: str, rows: set[Row]) -> None:
        """Put ``rows`` in the place of what was there."""
        self.rows[relation] = rows
        for key in [key for key in self.indexes if key[0] == relation]:
            del self.indexes[key]


@dataclass
class Derivation:
    """One derivation: the variables' values, and the tuples used, in the order of the rule's positive atoms.

    ``fault`` says which expression has no value on it, if one has not and no condition excludes the binding. The values
    and tuples are those of the moment: the search goes on in the same dictionary and list.
    """

    binding: dict[str, Any]
    used: list[Row]
    fault: Undefined | None


@dataclass
class Step:
    """One positive atom in join order: what it looks up, what it binds, and the conditions that can be tested then.

    ``key`` pairs column positions with constants or bound variables, ``binds`` column positions with new variables,
    ``repeats`` column positions with variables that the same atom binds.
    """

    place: int
    relation: str
    columns: tuple[int, ...]
    key: tuple[Expression, ...]
    binds: tuple[tuple[int, str], ...]
    repeats: tuple[tuple[int, str], ...]
    tests: list[Literal | tuple[str, Expression]] = field(default_factory=list)


class Joined:
    """A rule prepared for evaluation; ``first`` is the place of the positive atom to begin with, or None."""

    def __init__(self, rule: Rule, first: int | None = None) -> None:
        """Choose a join order, atoms with the most known columns first, and a place for every condition."""
        self.rule = rule
        atoms = list(rule.positive)
        fresh: list[Comparison] = []
        for place, atom in enumerate(atoms):
            arguments = list(atom.arguments)
            for column, argument in enumerate(arguments):
                if isinstance(argument, Binary | Negate | ListOf | Call):
                    name = f"{place}.{column}"
                    arguments[column] = Variable(name)
                    fresh.append(Comparison("=", Variable(name), argument))
            atoms[place] = Atom(atom.relation, tuple(arguments))
        bound: set[str] = set()
        self.before = Step(-1, "", (), (), (), ())
        steps = [self.before]
        left = list(range(len(atoms)))
        while left:
            place = first if first in left else max(left, key=lambda p: (known_columns(atoms[p], bound), -p))
            assert place is not None
            left.remove(place)
            steps.append(step(place, atoms[place], bound))
            bound |= {name for _, name in steps[-1].binds}
        self.steps = steps[1:]
        self.place_tests(steps, bound, fresh)

    def place_tests(self, steps: list[Step], from_atoms: set[str], fresh: list[Comparison]) -> None:
        """Hang every condition on the first step behind which its variables are known.

        Assignments are found in source order; an equality whose variables are all known is a comparison.
        """
        pending: list[Literal] = [literal for literal in self.rule.body if not isinstance(literal, Atom)]
        pending += fresh
        known: set[str] = set()
        for at in steps:
            known |= {name for _, name in at.binds}
            progress = True
            while progress:
                progress = False
                for literal in pending:
                    test = ready(literal, known, from_atoms)
                    if test is not None:
                        at.tests.append(test)
                        if isinstance(test, tuple):
                            known.add(test[0])
                        pending.remove(literal)
                        progress = True
                        break
        assert not pending, pending

    def derivations(self, store: Store, only: Iterable[Row] | None = None) -> Iterator[Derivation]:
        """All derivations; with ``only``, those whose first atom takes one of these tuples."""
        binding: dict[str, Any] = {}
        used: list[Row] = [()] * len(self.steps)

        def extend(depth: int, fault: Undefined | None) -> Iterator[Derivation]:
            if depth == len(self.steps):
                yield Derivation(binding, used, fault)
                return
            at = self.steps[depth]
            key = tuple(compute(part, binding) for part in at.key)
            if depth == 0 and only is not None:
                rows: Iterable[Row] = [
                    row for row in only if all(row[c] == k for c, k in zip(at.columns, key, strict=True))
                ]
            elif any(value is None and part != NULL for value, part in zip(key, at.key, strict=True)):
                rows = ()
            else:
                rows = store.matching(at.relation, at.columns, key)
            for row in rows:
                for column, name in at.binds:
                    binding[name] = row[column]
                if all(row[column] == binding[name] is not None for column, name in at.repeats):
                    excluded, found = self.tested(at, binding, store)
                    if not excluded:
                        used[at.place] = row
                        yield from extend(depth + 1, fault or found)

        excluded, found = self.tested(self.before, binding, store)
        if not excluded:
            yield from extend(0, found)

    def tested(self, at: Step, binding: dict[str, Any], store: Store) -> tuple[bool, Undefined | None]:
        """Whether a condition excludes the binding, and an undefined expression if there is one."""
        fault: Undefined | None = None
        for test in at.tests:
            outcome: Any
            if isinstance(test, tuple):
                outcome = binding[test[0]] = compute(test[1], binding)
                if outcome is None:
                    return True, None
            elif isinstance(test, Comparison):
                outcome = holds(test, binding)
                if outcome is False:
                    return True, None
            else:
                assert isinstance(test, Negation)
                computed = (a for a in test.atom.arguments if not isinstance(a, Variable | Wildcard))
                if any(compute(argument, binding) is None for argument in computed):
                    return True, None
                outcome = present(test.atom, binding, store)
                if outcome is True:
                    return True, None
            if isinstance(outcome, Undefined):
                fault = fault or outcome
        return False, fault


def known_columns(atom: Atom, bound: set[str]) -> int:
    """How many columns of the atom are known."""
    return sum(isinstance(a, Constant) or (isinstance(a, Variable) and a.name in bound) for a in atom.arguments)


def step(place: int, atom: Atom, bound: set[str]) -> Step:
    """How to look up ``atom`` when ``bound`` is known."""
    columns: list[int] = []
    key: list[Expression] = []
    binds: dict[str, int] = {}
    repeats: list[tuple[int, str]] = []
    for column, argument in enumerate(atom.arguments):
        if isinstance(argument, Wildcard):
            continue
        if isinstance(argument, Variable) and argument.name not in bound:
            if argument.name in binds:
                repeats.append((column, argument.name))
            else:
                binds[argument.name] = column
            continue
        columns.append(column)
        key.append(argument)
    pairs = tuple((column, name) for name, column in binds.items())
    return Step(place, atom.relation, tuple(columns), tuple(key), pairs, tuple(repeats))


def ready(literal: Literal, known: set[str], from_atoms: set[str]) -> Literal | tuple[str, Expression] | None:
    """The literal as a test, as an assignment of a variable that no atom binds, or None if it has to wait."""
    if isinstance(literal, Comparison):
        left, right = variables(literal.left), variables(literal.right)
        if left | right <= known:
            return literal
        if literal.op == "=":
            for target, source, needs in ((literal.left, literal.right, right), (literal.right, literal.left, left)):
                if isinstance(target, Variable) and target.name not in known | from_atoms and needs <= known:
                    return target.name, source
        return None
    assert isinstance(literal, Negation)
    needed = set().union(*map(variables, literal.atom.arguments))
    return literal if needed <= known else None


def present(atom: Atom, binding: Mapping[str, Any], store: Store) -> bool | Undefined:
    """Whether a tuple matches the atom, wildcards matching anything."""
    columns = tuple(c for c, argument in enumerate(atom.arguments) if not isinstance(argument, Wildcard))
    key = tuple(compute(atom.arguments[c], binding) for c in columns)
    for value in key:
        if isinstance(value, Undefined):
            return value
    if None in key:
        return False
    return any(True for _ in store.matching(atom.relation, columns, key))


# ---- heads ---------------------------------------------------------------------------------------------------------


def head_row(program: Program, rule: Rule, derivation: Derivation) -> Row:
    """The head tuple; at an aggregate stands its argument's value (None for ``count<*>``).

    Entries are :class:`Undefined` where the derivation has a fault.
    """
    columns = program.relations[rule.head.relation].columns
    values = []
    for place, argument in enumerate(rule.head.arguments):
        inner = argument.argument if isinstance(argument, Aggregate) else argument
        value = None if inner is None else compute(inner, derivation.binding)
        if isinstance(argument, Aggregate) and argument.function == "first":
            assert isinstance(inner, ListOf)
            value = ordered_by(inner, derivation)
        if columns is not None and not isinstance(argument, Aggregate) and isinstance(value, int | float):
            value = converted(value, columns[place].type.removesuffix("?"))
        extremum = isinstance(argument, Aggregate) and argument.function in ("min", "max")
        if columns is not None and (extremum or not isinstance(argument, Aggregate)) and isinstance(value, Decimal):
            value = within(value, columns[place].type.removesuffix("?"))
        values.append(value)
    return tuple(values)


def ordered_by(order: ListOf, derivation: Derivation) -> Any:
    """The values by which ``first`` orders; None if one is null."""
    values = tuple(compute(item, derivation.binding) for item in order.items)
    fault = next((value for value in values if isinstance(value, Undefined)), None)
    return fault or (None if None in values else values)


def converted(value: Any, type_name: str) -> Any:
    """An int in a declared float or decimal column as that type."""
    if isinstance(value, bool):
        return value
    if type_name == "float":
        return float(value)
    if type_name.startswith("decimal") and isinstance(value, int):
        return Decimal(value)
    return value


def within(value: Decimal, type_name: str) -> Any:
    """A decimal in a declared decimal column, which may have no digit for it."""
    if not type_name.startswith("decimal"):
        return value
    precision, scale = map(int, type_name.removeprefix("decimal(").removesuffix(")").split(","))
    return value if abs(value) < 10 ** (precision - scale) else Undefined("overflow")


def fault_of(derivation: Derivation, row: Row) -> Undefined | None:
    """What has no value in the body or the head of the derivation."""
    return derivation.fault or next((value for value in row if isinstance(value, Undefined)), None)


def sound(program: Program, rule: Rule, found: Iterable[Derivation], strict: bool) -> Iterator[tuple[Row, Derivation]]:
    """Head tuples with their derivations; one with a fault raises if ``strict`` and is left out otherwise."""
    for derivation in found:
        row = head_row(program, rule, derivation)
        arguments = zip(rule.head.arguments, row, strict=True)
        if any(isinstance(a, Aggregate) and a.argument is not None and value is None for a, value in arguments):
            continue
        fault = fault_of(derivation, row)
        if fault is None:
            yield row, derivation
        elif strict:
            raise ArithmeticFault(f"{rule.line}: {fault.reason} in a rule of {rule.head.relation}")


def aggregated(rule: Rule, bag: Iterable[Row], strict: bool) -> dict[Row, int]:
    """The rows of an aggregated relation with the number of derivations behind each.

    ``bag`` holds the head tuples of all derivations of all rules of the relation, ``rule`` is any of these. Columns
    that stand behind a ``min`` or ``max`` are witnesses: a group has a row per distinct witness among the tuples that
    reach its best value. The count of a row is that of its group, or of the tuples that show its witness.
    Raises :class:`ArithmeticFault` for an integer sum beyond 64 bits.
    """
    heads = rule.head.arguments
    for place, argument in enumerate(heads):
        if isinstance(argument, Aggregate) and argument.function == "first":
            return first_rows(argument, place, bag)
    aggregates = [c for c, argument in enumerate(heads) if isinstance(argument, Aggregate)]
    extremes = [c for c in aggregates if function_at(rule, c) in ("min", "max")]
    witnesses = [c for c in range(len(heads)) if c not in aggregates and extremes and c > extremes[0]]
    if witnesses and len(aggregates) > 1:
        raise ValueError(f"{rule.line}: witnesses of more than one aggregate")
    grouping = [c for c in range(len(heads)) if c not in aggregates and c not in witnesses]
    groups: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in bag:
        groups[tuple(row[c] for c in grouping)].append(row)
    result: dict[Row, int] = {}
    for rows in groups.values():
        values = {}
        for c in aggregates:
            argument = heads[c]
            assert isinstance(argument, Aggregate)
            values[c] = fold(argument, [row[c] for row in rows])
            if isinstance(values[c], Undefined):
                if strict:
                    raise ArithmeticFault(f"{rule.line}: {values[c].reason} in an aggregate of {rule.head.relation}")
                break
        else:
            best = [row for row in rows if row[extremes[0]] == values[extremes[0]]] if witnesses else rows
            shown = Counter(tuple(values.get(c, row[c]) for c in range(len(heads))) for row in best)
            result.update(shown)
    return result


def first_rows(first: Aggregate, place: int, bag: Iterable[Row]) -> dict[Row, int]:
    """The first rows of each group with the numbers of their derivations; groups stand before the aggregate. Rows
    with the same values in their order are ordered by what is behind it, and nulls come first there."""
    groups: defaultdict[Row, Counter[Row]] = defaultdict(Counter)
    for row in bag:
        groups[row[:place]][row[place:]] += 1
    result: dict[Row, int] = {}
    for group, rows in groups.items():
        ordered = sorted(rows, key=lambda row: [(value is not None, value) for value in row[1:]])
        for column, descending in reversed(list(enumerate(first.descending))):
            # Sorting is stable, also backwards.
            ordered.sort(key=lambda row, column=column: row[0][column], reverse=descending)  # type: ignore[misc]
        for number, row in enumerate(ordered[: first.limit], 1):
            result[*group, number, *row[1:]] = rows[row]
    return result


def function_at(rule: Rule, column: int) -> str:
    """The aggregate function at a head column."""
    argument = rule.head.arguments[column]
    assert isinstance(argument, Aggregate)
    return argument.function


def fold(aggregate: Aggregate, values: list[Any]) -> Any:
    """One aggregate over the values of a group, which is not empty.

    Sums of ints (within 64 bits) and decimals (within 38 digits) are exact; ``avg`` divides them as floats, where these
    are exact with the last digit of a decimal as the unit. Floats are added in the order of their values, which makes
    the result a function of the group alone.
    """
    if aggregate.distinct:
        values = list(set(values))
    match aggregate.function:
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "count":
            return len(values)
    if isinstance(values[0], float):
        total = reduce(operator.add, sorted(values), 0.0)
        if not math.isfinite(total):
            return Undefined("overflow")
        return total / len(values) if aggregate.function == "avg" else total
    if isinstance(values[0], Decimal):
        with localcontext(EXACT):
            exact = sum(values, Decimal(0))
            if len(exact.as_tuple().digits) > 38:
                return Undefined("overflow")
            if aggregate.function == "sum":
                return exact
            scale = -int(exact.as_tuple().exponent)
            units = exact.scaleb(scale)
        if abs(units) <= 2**53 and scale <= 18:
            return float(units) / (len(values) * float(10**scale))
        return float(exact) / len(values)
    if aggregate.function == "avg":
        return float(sum(values)) / len(values)
    total = sum(values)
    return total if -(2**63) <= total < 2**63 else Undefined("overflow")


# ---- evaluation ----------------------------------------------------------------------------------------------------


def evaluate(program: Program, inputs: Relations) -> dict[str, set[Row]]:
    """All derived relations, outputs or not, and those inputs that are published.

    ``inputs`` maps input relations to their tuples. An input derived relation comes back with what is put in and what
    is derived. Raises :class:`ArithmeticFault`, :class:`NotStratified`, :class:`KeyViolation`, :class:`RoundLimit` and
    :class:`OnlyFromEachOther`.
    """
    return shown(program, evaluated(program, inputs))


def shown(program: Program, store: Store) -> dict[str, set[Row]]:
    """What :func:`evaluate` returns of the store after all strata."""
    return {
        relation.name: set(store.rows[relation.name])
        for relation in program.relations.values()
        if relation.is_derived or relation.is_output or relation.is_multiset or not relation.is_input
    }


def evaluated(program: Program, inputs: Relations) -> Store:
    """The store after all strata. :func:`counts` and :func:`supports_ok` take it, so that one evaluation is enough."""
    store = Store({relation.name: inputs.get(relation.name, ()) for relation in program.inputs})
    for relation in program.inputs:
        if relation.is_multiset:
            # Each fact is one copy more.
            copies = Counter(inputs.get(relation.name, ())) + Counter(once(program, relation.name, store, strict=False))
            store.copies[relation.name] = copies
    for stratum in strata(program):
        run_stratum(program, stratum, store)
    for relation in program.relations.values():
        check_key(relation.name, () if relation.is_input else relation.key, store.rows[relation.name])
    return store


def run_stratum(program: Program, stratum: Stratum, store: Store) -> None:
    """Fill the relations of a stratum.

    Undefined expressions count at the end only, when the tuples of the recursion are known.
    """
    rules = rules_of(program, stratum)
    if any(program.relations[name].path is not None for name in stratum.relations):
        run_paths(program, stratum, rules, store)
    elif stratum.recursive and any(adds_up(rule) for rule in rules):
        run_sums(program, stratum, rules, store)
    elif any(rule.aggregated for rule in rules):
        run_aggregates(program, stratum, store)
    else:
        run_union(program, stratum, rules, store)
    for name in stratum.relations:
        narrow = any(column.type.startswith("decimal") for column in program.relations[name].columns or ())
        if narrow or any(may_fail(rule) for rule in program.rules_of(name)):
            once(program, name, store, strict=True)


def may_fail(rule: Rule) -> bool:
    """Whether the rule computes anything."""
    parts: list[Expression] = list(rule.head.arguments)
    for literal in rule.body:
        if isinstance(literal, Comparison):
            parts += [literal.left, literal.right]
        else:
            parts += literal.atom.arguments if isinstance(literal, Negation) else literal.arguments
    return any(isinstance(part, Binary | Negate | ListOf | Call | Aggregate) for part in parts)


def run_union(program: Program, stratum: Stratum, rules: list[Rule], store: Store) -> None:
    """Rounds until nothing is new; from the second on a derivation must use a tuple found in the round before."""
    found: defaultdict[str, set[Row]] = defaultdict(set)
    for rule in rules:
        found[rule.head.relation] |= {
            row for row, _ in sound(program, rule, Joined(rule).derivations(store), strict=False)
        }
    recursive = [
        (Joined(rule, place), atom.relation)
        for rule in rules
        for place, atom in enumerate(rule.positive)
        if atom.relation in stratum.relations
    ]
    for _ in range(ROUNDS):
        new = {name: store.add(name, rows) for name, rows in found.items()}
        if not any(new.values()):
            return
        found = defaultdict(set)
        for joined, relation in recursive:
            if new.get(relation):
                rows = sound(program, joined.rule, joined.derivations(store, new[relation]), strict=False)
                found[joined.rule.head.relation] |= {row for row, _ in rows}
    raise RoundLimit(f"{', '.join(stratum.relations)} still grow after {ROUNDS} rounds")


def run_paths(program: Program, stratum: Stratum, rules: list[Rule], store: Store) -> None:
    """Rounds over everything until nothing is new, for paths and for rules that recurse through them."""
    for _ in range(ROUNDS):
        new = 0
        for name in stratum.relations:
            path = program.relations[name].path
            if path is not None:
                new += len(store.add(name, pairs(path, identity(program, path, store), store)))
        for rule in rules:
            found = sound(program, rule, Joined(rule).derivations(store), strict=False)
            new += len(store.add(rule.head.relation, {row for row, _ in found}))
        if not new:
            return
    raise RoundLimit(f"{', '.join(stratum.relations)} still grow after {ROUNDS} rounds")


def identity(program: Program, path: Path, store: Store) -> set[Row]:
    """The nodes from which an empty path leads to themselves: those of the domain, else all that the path can meet."""
    if not program.domains:
        return {(node, node) for name in path.relations for row in store.rows[name] for node in row}
    nodes = set()
    for domain in program.domains:
        place = next(i for i, argument in enumerate(domain.arguments) if isinstance(argument, Variable))
        wanted = {i: a.value for i, a in enumerate(domain.arguments) if isinstance(a, Constant)}
        nodes |= {
            row[place]
            for row in store.rows[domain.relation]
            if all(row[column] == value for column, value in wanted.items())
        }
    return {(node, node) for node in nodes}


def pairs(path: Path, same: set[Row], store: Store) -> set[Row]:
    """The pairs of nodes that a path connects, ``same`` being those that an empty one does."""
    if path.op == "step":
        return set(store.rows[path.relation])
    parts = [pairs(part, same, store) for part in path.parts]
    match path.op:
        case "^":
            return {(y, x) for x, y in parts[0]}
        case "|":
            return parts[0] | parts[1]
        case "/":
            return composed(parts[0], parts[1])
        case "?":
            return parts[0] | same
    closed: set[Row] = set()
    new = parts[0]
    while new:
        closed |= new
        new = composed(new, parts[0]) - closed
    return closed | same if path.op == "*" else closed


def composed(left: set[Row], right: set[Row]) -> set[Row]:
    """The pairs that lead along one of ``left`` and then one of ``right``."""
    behind = defaultdict(list)
    for x, y in right:
        behind[x].append(y)
    return {(x, z) for x, y in left for z in behind[y]}


def run_aggregates(program: Program, stratum: Stratum, store: Store) -> None:
    """Fill a stratum with aggregates: in one round without recursion.

    With ``min`` or ``max`` inside recursion it is known first how good values get, where what was once derived stays:
    a better value only leads to better ones. Then everything is derived from nothing once more, of the values the best
    only. Raises :class:`OnlyFromEachOther` where not all of them come back.
    """
    base = {name: set(store.rows[name]) for name in stratum.relations}
    if not stratum.recursive:
        for name, rows in base.items():
            store.replace(name, rows | set(once(program, name, store, strict=False)))
        return
    places = {name: extremum_of(program, name) for name in stratum.relations}
    for _ in range(ROUNDS):
        after = {name: set(once(program, name, store, strict=False)) for name in places}
        for name, place in places.items():
            kept = store.rows[name] | base[name] | after[name]
            after[name] = kept if place is None else best_rows(program, name, place, kept)
        if all(after[name] == store.rows[name] for name in after):
            break
        for name, rows in after.items():
            store.replace(name, rows)
    else:
        raise RoundLimit(f"{', '.join(stratum.relations)} still change after {ROUNDS} rounds")
    known = {
        name: (place + 1, {row[: place + 1] for row in store.rows[name]})
        for name, place in places.items()
        if place is not None
    }
    for name, rows in base.items():
        store.replace(name, rows)
    grown = True
    while grown:
        found = {name: set(once(program, name, store, strict=False)) for name in places}
        for name, (end, values) in known.items():
            found[name] = {row for row in found[name] if row[:end] in values}
        new = [store.add(name, rows) for name, rows in found.items()]
        grown = any(new)
    for name, (end, values) in known.items():
        if {row[:end] for row in store.rows[name]} != values:
            raise OnlyFromEachOther(f"best values of {name} only follow from each other")


def adds_up(rule: Rule) -> bool:
    """Whether a head has an aggregate other than ``min`` and ``max``."""
    return any(isinstance(a, Aggregate) and a.function not in ("min", "max") for a in rule.head.arguments)


def run_sums(program: Program, stratum: Stratum, rules: list[Rule], store: Store) -> None:
    """Fill a recursion with ``sum``, ``count`` or ``avg``.

    A group is a tuple with None for its values. Groups are found first, as if all conditions on values held, with those
    that they were derived from. Then they are computed one after the other in a topological order. Raises
    :class:`CyclicGroups` if there is none.
    """
    values = value_places(stratum, rules)
    base = {name: set(store.rows[name]) for name in stratum.relations}
    for name, rows in base.items():
        store.replace(name, {group(name, row, values) for row in rows})
    open_rules = [Joined(without_values(rule, values)) for rule in rules]
    needs: defaultdict[tuple[str, Row], set[tuple[str, Row]]] = defaultdict(set)
    for _ in range(ROUNDS):
        new = 0
        for joined in open_rules:
            rule, found = joined.rule, set[Row]()
            for row, derivation in sound(program, rule, joined.derivations(store), strict=False):
                read = zip(rule.positive, derivation.used, strict=True)
                of = {(atom.relation, used) for atom, used in read if atom.relation in stratum.relations}
                needs[rule.head.relation, row] |= of
                found.add(row)
            new += len(store.add(rule.head.relation, found))
        if not new:
            break
    else:
        raise RoundLimit(f"{', '.join(stratum.relations)} still grow after {ROUNDS} rounds")
    try:
        ordered = [*TopologicalSorter(needs).static_order()]
    except CycleError as error:
        raise CyclicGroups(f"{error.args[1]} depend on each other") from error
    for name, rows in base.items():
        store.replace(name, rows)
    for name, wanted in ordered:
        rows = (row for row in once(program, name, store, strict=False) if group(name, row, values) == wanted)
        store.add(name, set(rows))


def value_places(stratum: Stratum, rules: list[Rule]) -> set[tuple[str, int]]:
    """The columns, as relation and place, that depend on an aggregate of the stratum."""
    found: set[tuple[str, int]] = set()
    while True:
        more = {
            (rule.head.relation, place)
            for rule in rules
            for place, argument in enumerate(rule.head.arguments)
            if isinstance(argument, Aggregate) or variables(argument) & value_variables(rule, found)
        }
        if more <= found:
            return found
        found |= more


def value_variables(rule: Rule, values: set[tuple[str, int]]) -> set[str]:
    """The variables of a rule that depend on values of its recursion."""
    found = {
        argument.name
        for atom in rule.positive
        for place, argument in enumerate(atom.arguments)
        if (atom.relation, place) in values and isinstance(argument, Variable)
    }
    before = None
    while before != found:
        before = set(found)
        for literal in rule.body:
            # A variable that only an equality gives a value.
            if isinstance(literal, Comparison) and literal.op == "=":
                for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                    bound = {v for atom in rule.positive for argument in atom.arguments for v in variables(argument)}
                    if isinstance(one, Variable) and one.name not in bound and variables(other) & found:
                        found.add(one.name)
    return found


def group(name: str, row: Row, values: set[tuple[str, int]]) -> Row:
    """A tuple with None for its values."""
    return tuple(None if (name, place) in values else value for place, value in enumerate(row))


def without_values(rule: Rule, values: set[tuple[str, int]]) -> Rule:
    """A rule over groups, without conditions on values. What else an expression with a value reads must not be null,
    nor what its aggregates read: they leave such derivations out."""
    hidden = value_variables(rule, values)
    read = set[str]().union(*(variables(a) for a in rule.head.arguments if isinstance(a, Aggregate)))
    body: list[Literal] = [Comparison("=", Variable(name), Variable(name)) for name in sorted(read - hidden)]
    for literal in rule.body:
        named = variables(literal.left) | variables(literal.right) if isinstance(literal, Comparison) else set()
        if named & hidden:
            body += [Comparison("=", Variable(name), Variable(name)) for name in sorted(named - hidden)]
            continue
        if isinstance(literal, Atom):
            arguments = enumerate(literal.arguments)
            kept = (Wildcard() if (literal.relation, place) in values else argument for place, argument in arguments)
            literal = Atom(literal.relation, tuple(kept))
        body.append(literal)
    head = (
        NULL if (rule.head.relation, place) in values else argument
        for place, argument in enumerate(rule.head.arguments)
    )
    return replace(rule, head=Atom(rule.head.relation, tuple(head)), body=tuple(body))


def extremum_of(program: Program, name: str) -> int | None:
    """The place of the ``min`` or ``max`` among the columns of a relation, with the columns of the group before it and
    witnesses behind it; None if there is none."""
    rules = [rule for rule in program.rules_of(name) if rule.aggregated]
    arguments = rules[0].head.arguments if rules else ()
    return next((c for c, argument in enumerate(arguments) if isinstance(argument, Aggregate)), None)


def best_rows(program: Program, name: str, place: int, rows: Iterable[Row]) -> set[Row]:
    """Of each group the rows that have the best value, at ``place``."""
    best: dict[Row, set[Row]] = {}
    better = operator.lt if function_at(program.rules_of(name)[0], place) == "min" else operator.gt
    for row in rows:
        known = best.get(row[:place])
        value = next(iter(known))[place] if known else None
        if known is None or better(row[place], value):
            best[row[:place]] = {row}
        elif row[place] == value:
            known.add(row)
    return set().union(*best.values())


def once(program: Program, name: str, store: Store, strict: bool) -> Mapping[Row, int]:
    """What the rules of one relation give over ``store``: numbers of derivations, those of inputs not included."""
    rules = program.rules_of(name)
    bag: Counter[Row] = Counter()
    for rule in rules:
        for row, derivation in sound(program, rule, Joined(rule).derivations(store), strict):
            bag[row] += weight(rule, derivation, store) if rule.aggregated else 1
    if any(rule.aggregated for rule in rules):
        return aggregated(rules[0], bag.elements(), strict)
    return bag


def weight(rule: Rule, derivation: Derivation, store: Store) -> int:
    """How often a derivation counts for an aggregate: once for each choice of copies of the rows that it uses."""
    times = 1
    for place, atom in enumerate(rule.positive):
        if atom.relation in store.copies:
            times *= store.copies[atom.relation][derivation.used[place]]
    return times


def check_key(name: str, key: tuple[int, ...], rows: Iterable[Row]) -> None:
    """Raise :class:`KeyViolation` if two rows agree on ``key``."""
    if key:
        twice = [k for k, n in Counter(tuple(row[c] for c in key) for row in rows).items() if n > 1]
        if twice:
            raise KeyViolation(f"{name} has two tuples with the key {min(twice)}")


def counts(program: Program, inputs: Relations, store: Store | None = None) -> dict[str, Counter[Row]]:
    """Numbers of derivations per tuple, for the relations that are not recursive, inputs that are not derived included.

    A fact and a tuple that is put in count one derivation each. A row of an aggregated relation counts the derivations
    of its group (with witnesses: those that give just this row).
    """
    store = store or evaluated(program, inputs)
    result: dict[str, Counter[Row]] = {
        relation.name: Counter(inputs.get(relation.name, ())) for relation in program.inputs if not relation.is_derived
    }
    for stratum in strata(program):
        if not stratum.recursive:
            (name,) = stratum.relations
            if program.relations[name].path is not None:
                result[name] = Counter(store.rows[name])
                continue
            result[name] = Counter(once(program, name, store, strict=True))
            if program.relations[name].is_input:
                result[name].update(inputs.get(name, ()))
    return result


# ---- ranked support ------------------------------------------------------------------------------------------------


def supports_ok(
    program: Program,
    inputs: Relations,
    state: Mapping[str, Mapping[Row, tuple[int, int]]],
    store: Store | None = None,
) -> list[str]:
    """What is wrong with the stored (support, rank) of recursive strata; an empty list if nothing is.

    ``state`` maps relations to tuples to (support, rank). Checked for every recursive stratum: its relations are there
    with exactly the tuples that evaluation gives, ranks and supports are at least 1, and the support of a tuple is the
    number of its derivations whose rank, the highest rank among the body tuples of the stratum or 0 without any, lies
    below its own. For ``min`` and ``max`` a derivation counts if it gives exactly the stored value.
    """
    store = store or evaluated(program, inputs)
    wrong: list[str] = []
    for stratum in strata(program):
        if stratum.recursive:
            wrong += wrong_supports(program, stratum, inputs, store, state)
    return wrong


def wrong_supports(
    program: Program,
    stratum: Stratum,
    inputs: Relations,
    store: Store,
    state: Mapping[str, Mapping[Row, tuple[int, int]]],
) -> list[str]:
    """:func:`supports_ok` for one stratum."""
    wrong: list[str] = []
    for name in stratum.relations:
        if name not in state:
            wrong.append(f"{name}: recursive, but not in the state")
            continue
        wrong += [f"{name}{row}: missing" for row in sorted(store.rows[name] - set(state[name]), key=repr)]
        wrong += [f"{name}{row}: not derivable" for row in sorted(set(state[name]) - store.rows[name], key=repr)]
    if wrong:
        return wrong
    recounted: Counter[tuple[str, Row]] = Counter()
    for name in stratum.relations:
        if program.relations[name].is_input:
            recounted.update((name, row) for row in inputs.get(name, ()))
    for rule in rules_of(program, stratum):
        name = rule.head.relation
        inside = [
            (place, atom.relation) for place, atom in enumerate(rule.positive) if atom.relation in stratum.relations
        ]
        for row, derivation in sound(program, rule, Joined(rule).derivations(store), strict=False):
            rank = max((state[below][derivation.used[place]][1] for place, below in inside), default=0)
            if row in state[name] and rank < state[name][row][1]:
                recounted[name, row] += 1
    for name in stratum.relations:
        for row, (support, rank) in state[name].items():
            if rank < 1:
                wrong.append(f"{name}{row}: rank {rank}")
            if support < 1 or support != recounted[name, row]:
                wrong.append(f"{name}{row}: support {support}, counted {recounted[name, row]} below rank {rank}")
    return wrong
