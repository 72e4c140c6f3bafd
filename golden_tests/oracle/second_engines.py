"""The same programs evaluated by engines of others, to check the oracle: clingo and DuckDB.

Paths become rules first, which the oracle itself never makes of them. clingo gets the whole program, recursion and
negation included, and knows nothing of strata; it takes programs without arithmetic and aggregates. DuckDB gets a query
per rule and is asked until nothing is new, stratum by stratum; it takes aggregates and arithmetic too. Both return what
``evaluate`` returns for derived relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from .evaluate import strata
from .language import (
    Aggregate,
    Atom,
    Binary,
    Comparison,
    Constant,
    Expression,
    Negate,
    Negation,
    Path,
    Program,
    Relation,
    Row,
    Rule,
    Variable,
    Wildcard,
    variables,
)

# ---- paths ---------------------------------------------------------------------------------------------------------


def without_paths(program: Program) -> Program:
    """The program with a relation and rules for every path and every part of one."""
    relations = {name: relation for name, relation in program.relations.items() if relation.path is None}
    rules = list(program.rules)
    x, y, z = Variable("X"), Variable("Y"), Variable("Z")

    def rule(name: str, arguments: tuple[Variable, Variable], *body: Atom) -> None:
        relations.setdefault(name, Relation(name, 2, is_derived=True))
        rules.append(Rule(Atom(name, arguments), body, None, 0))

    def same(path: Path) -> str:
        """The relation of the pairs that an empty path connects, if it is a part of ``path``."""
        if program.domains:
            for domain in program.domains:
                arguments = tuple(x if isinstance(a, Variable) else a for a in domain.arguments)
                rule("same", (x, x), Atom(domain.relation, arguments))
            return "same"
        name = f"same {path}"
        for step in sorted(path.relations):
            rule(name, (x, x), Atom(step, (x, Wildcard())))
            rule(name, (x, x), Atom(step, (Wildcard(), x)))
        return name

    def add(name: str, path: Path, whole: Path) -> str:
        """Make relation ``name`` of a path that is a part of ``whole``."""
        below = [part.relation or add(f"{name}.{place}", part, whole) for place, part in enumerate(path.parts)]
        match path.op:
            case "^":
                rule(name, (x, y), Atom(below[0], (y, x)))
            case "/":
                rule(name, (x, y), Atom(below[0], (x, z)), Atom(below[1], (z, y)))
            case _:
                for part in below:
                    rule(name, (x, y), Atom(part, (x, y)))
        if path.op in "+*":
            rule(name, (x, y), Atom(name, (x, z)), Atom(name, (z, y)))
        if path.op in "*?":
            rule(name, (x, y), Atom(same(whole), (x, y)))
        return name

    for name, relation in program.relations.items():
        if relation.path is not None:
            relations[name] = Relation(name, 2, is_derived=True)
            add(name, relation.path, relation.path)
    different = {(rule.head.relation, rule.head.arguments, rule.body): rule for rule in rules[len(program.rules) :]}
    return Program(relations, (*program.rules, *different.values()))


# ---- clingo --------------------------------------------------------------------------------------------------------


def by_clingo(program: Program, inputs: Mapping[str, Set[Row]]) -> dict[str, set[Row]]:
    """Derived relations as clingo finds them; ints and strings only.

    Raises ImportError without clingo and ValueError for arithmetic or aggregates.
    """
    import clingo

    wanted = [relation.name for relation in program.derived]
    program = without_paths(program)
    names = {name: f"r{number}" for number, name in enumerate(program.relations)}
    lines = [clingo_rule(rule, names) for rule in program.rules]
    for relation in program.inputs:
        for row in inputs.get(relation.name, ()):
            lines.append(f"{clingo_atom(names[relation.name], [clingo_constant(value) for value in row])}.")
    control = clingo.Control(["--warn=none"])
    control.add("base", [], "\n".join(lines))
    control.ground([("base", [])])
    found: dict[str, set[Row]] = {name: set() for name in wanted}
    back = {short: name for name, short in names.items()}
    with control.solve(yield_=True) as models:
        (answer,) = [model.symbols(atoms=True) for model in models]
    for symbol in answer:
        name = back[symbol.name]
        if name in found:
            found[name].add(tuple(from_symbol(argument) for argument in symbol.arguments))
    return found


def from_symbol(symbol: Any) -> int | str:
    """A clingo symbol as a value."""
    value = symbol.number if symbol.type.name == "Number" else symbol.string
    assert isinstance(value, int | str)
    return value


def clingo_rule(rule: Rule, names: Mapping[str, str]) -> str:
    """A rule in clingo's syntax."""
    body = []
    for literal in rule.body:
        match literal:
            case Comparison(op, left, right):
                body.append(f"{clingo_term(left)} {op} {clingo_term(right)}")
            case Negation(atom):
                body.append(f"not {clingo_atom(names[atom.relation], map(clingo_term, atom.arguments))}")
            case Atom(relation, arguments):
                body.append(clingo_atom(names[relation], map(clingo_term, arguments)))
    head = clingo_atom(names[rule.head.relation], map(clingo_term, rule.head.arguments))
    return f"{head} :- {', '.join(body)}." if body else f"{head}."


def clingo_atom(name: str, terms: Iterable[str]) -> str:
    """``name(terms)``."""
    written = ", ".join(terms)
    return f"{name}({written})" if written else name


def clingo_term(expression: Expression) -> str:
    """A variable, wildcard or constant."""
    match expression:
        case Variable(name):
            return f"V{name}"
        case Wildcard():
            return "_"
        case Constant(value):
            return clingo_constant(value)
    raise ValueError(f"not for clingo: {expression}")


def clingo_constant(value: Any) -> str:
    """A value in clingo's syntax."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    raise ValueError(f"not for clingo: {value!r}")


# ---- DuckDB --------------------------------------------------------------------------------------------------------


def by_duckdb(program: Program, inputs: Mapping[str, Set[Row]]) -> dict[str, set[Row]]:
    """Derived relations as DuckDB finds them.

    Divisions by zero are null there and satisfy nothing, so the result agrees where ``evaluate`` raises nothing.
    ``min`` and ``max`` inside recursion and witnesses are not for it.
    """
    import duckdb

    wanted = [relation.name for relation in program.derived]
    program = without_paths(program)
    connection = duckdb.connect()
    for name, types in column_types(program).items():
        columns = ", ".join(
            f"c{c} {SQL_TYPES.get(type_name, type_name)}" for c, type_name in enumerate((*types, "int"))
        )
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
    for relation in program.inputs:
        rows = [(*row, 1) for row in inputs.get(relation.name, ())]
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f'INSERT INTO "{relation.name}" VALUES ({marks})', rows)
    for stratum in strata(program):
        grew = True
        while grew:
            grew = False
            for name in stratum.relations:
                query = sql_union(program.rules_of(name))
                if query:
                    before = count_rows(connection, name)
                    connection.execute(f'INSERT INTO "{name}" SELECT * FROM ({query}) EXCEPT SELECT * FROM "{name}"')
                    grew = grew or count_rows(connection, name) > before
    return {name: {row[:-1] for row in connection.execute(f'SELECT * FROM "{name}"').fetchall()} for name in wanted}


def count_rows(connection: Any, name: str) -> int:
    """The number of rows of a table."""
    found = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
    assert isinstance(found, int)
    return found


SQL_TYPES = {"int": "BIGINT", "float": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN"}


def column_types(program: Program) -> dict[str, list[str]]:
    """Column types of every relation: as declared, else as its rules have them, else int."""
    types: dict[str, list[str]] = {
        name: [column.type for column in relation.columns] if relation.columns is not None else [""] * relation.arity
        for name, relation in program.relations.items()
    }
    grew = True
    while grew:
        grew = False
        for rule in program.rules:
            known = {
                argument.name: types[atom.relation][column]
                for atom in rule.positive
                for column, argument in enumerate(atom.arguments)
                if isinstance(argument, Variable) and types[atom.relation][column]
            }
            for _ in rule.body:
                for literal in rule.body:
                    if isinstance(literal, Comparison) and literal.op == "=":
                        for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                            if isinstance(one, Variable) and one.name not in known:
                                known[one.name] = type_of(other, known)
            head = types[rule.head.relation]
            for column, argument in enumerate(rule.head.arguments):
                if not head[column] and type_of(argument, known):
                    head[column] = type_of(argument, known)
                    grew = True
    return {name: [type_name or "int" for type_name in found] for name, found in types.items()}


def type_of(expression: Expression, known: Mapping[str, str]) -> str:
    """The type of an expression, empty if it is not known yet."""
    match expression:
        case Variable(name):
            return known.get(name, "")
        case Constant(value):
            return {bool: "bool", int: "int", float: "float", str: "string"}[type(value)]
        case Binary(_, left, right):
            return type_of(left, known) or type_of(right, known)
        case Negate(operand):
            return type_of(operand, known)
        case Aggregate(function, argument):
            fixed = {"count": "int", "avg": "float"}.get(function)
            return fixed or (type_of(argument, known) if argument is not None else "")
    return ""


def sql_union(rules: list[Rule]) -> str:
    """All rules of a relation as one query, with a last column 1 so that nullary relations have a column."""
    if not any(rule.aggregated for rule in rules):
        return " UNION ".join(f"SELECT {', '.join([*sql_rule(rule)[0], '1'])} {sql_rule(rule)[1]}" for rule in rules)
    selects = []
    for rule in rules:
        values, rest = sql_rule(rule)
        named = ", ".join(f"{value} AS c{column}" for column, value in enumerate([*values, "1"]))
        selects.append(f"SELECT {named} {rest}")
    bag = " UNION ALL ".join(selects)
    outer, groups = [], []
    for column, argument in enumerate(rules[0].head.arguments):
        if isinstance(argument, Aggregate):
            inner = "*" if argument.argument is None else f"{'DISTINCT ' if argument.distinct else ''}c{column}"
            outer.append(f"{argument.function}({inner})")
        else:
            outer.append(f"c{column}")
            groups.append(f"c{column}")
    grouped = f"GROUP BY {', '.join(groups)}" if groups else "HAVING count(*) > 0"
    return f"SELECT {', '.join([*outer, '1'])} FROM ({bag}) {grouped}"


def sql_rule(rule: Rule) -> tuple[list[str], str]:
    """The head's columns (an aggregate's argument at its place) and ``FROM ... WHERE ...``."""
    known: dict[str, str] = {}
    where: list[str] = []
    for place, atom in enumerate(rule.positive):
        for column, argument in enumerate(atom.arguments):
            if isinstance(argument, Variable):
                known.setdefault(argument.name, f"t{place}.c{column}")
    comparisons = [literal for literal in rule.body if isinstance(literal, Comparison)]
    waiting = list(comparisons)
    while waiting:
        for comparison in waiting:
            left, right, assigns = comparison.left, comparison.right, comparison.op == "="
            if variables(left) | variables(right) <= set(known):
                where.append(f"{sql(left, known)} {comparison.op} {sql(right, known)}")
            elif assigns and isinstance(left, Variable) and left.name not in known and variables(right) <= set(known):
                known[left.name] = f"({sql(right, known)})"
            elif assigns and isinstance(right, Variable) and right.name not in known and variables(left) <= set(known):
                known[right.name] = f"({sql(left, known)})"
            else:
                continue
            waiting.remove(comparison)
            break
    for place, atom in enumerate(rule.positive):
        where += matches(atom, f"t{place}", known)
    for literal in rule.body:
        if isinstance(literal, Negation):
            conditions = " AND ".join(matches(literal.atom, "n", known)) or "true"
            where.append(f'NOT EXISTS (SELECT 1 FROM "{literal.atom.relation}" n WHERE {conditions})')
    tables = ", ".join(f'"{atom.relation}" t{place}' for place, atom in enumerate(rule.positive))
    columns = []
    for argument in rule.head.arguments:
        inner = argument.argument if isinstance(argument, Aggregate) else argument
        columns.append("1" if inner is None else sql(inner, known))
    return columns, (f"FROM {tables} " if tables else "") + (f"WHERE {' AND '.join(where)}" if where else "")


def matches(atom: Atom, table: str, known: Mapping[str, str]) -> list[str]:
    """Conditions under which a row of ``table`` matches ``atom``."""
    return [
        f"{table}.c{column} = {sql(argument, known)}"
        for column, argument in enumerate(atom.arguments)
        if not isinstance(argument, Wildcard)
    ]


def sql(expression: Expression, known: Mapping[str, str]) -> str:
    """An expression over the columns that stand for the variables."""
    match expression:
        case Variable(name):
            return known[name]
        case Constant(value):
            return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
        case Negate(operand):
            return f"(-{sql(operand, known)})"
        case Binary(op, left, right):
            one, other = sql(left, known), sql(right, known)
            match op:
                case "/":
                    return f"({one} // nullif({other}, 0))"
                case "%":
                    return f"({one} % nullif({other}, 0))"
            return f"({one} {'||' if op == '++' else op} {other})"
    raise ValueError(f"not for SQL: {expression}")
