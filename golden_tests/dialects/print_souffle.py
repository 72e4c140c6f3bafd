"""Prints programs of the oracle in Soufflé, in one of the ways to write them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence

from flintlog.compiler.ir import syntax

from golden_tests.oracle.random_programs import FEATURES

#: What random programs may show in Soufflé.
EXPRESSIBLE = (FEATURES - {"paths", "keys"}) | {"extremes", "many facts"}

_TYPES = {"int": "number", "string": "symbol", "float": "float"}
_FILLING = {"number": "0", "symbol": '""', "float": "0.0"}
_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_AGGREGATES = {"avg": "mean"}

Columns = Mapping[str, Sequence[str]]
Conjunction = tuple[syntax.Literal, ...]


def printed(program: syntax.SyntaxProgram, columns: Columns, rng: random.Random) -> str:
    """Return a program of Flintlog's language in Soufflé; ``columns`` are the types of the columns of its relations."""
    return _Printer(program, columns, rng).text()


class _Printer:
    """The relations of a program and the choices of how to write them."""

    def __init__(self, program: syntax.SyntaxProgram, columns: Columns, rng: random.Random) -> None:
        self.program, self.rng = program, rng
        self.columns = {name: [_TYPES[kind] for kind in kinds] for name, kinds in columns.items()}
        self.rules = [s for s in program.statements if isinstance(s, syntax.RuleNode)]
        self.lines: list[str] = []
        self.macros: dict[str, str] = {}
        self.prefix = ""

    def text(self) -> str:
        """Return the program: declarations and clauses in any order."""
        declared = {s.name: s for s in self.program.statements if isinstance(s, syntax.RelationDeclaration)}
        outputs = {s.name for s in self.program.statements if isinstance(s, syntax.OutputDirective)}
        for name, kinds in self.columns.items():
            self.declare(name, kinds)
            if name in outputs or (name in declared and declared[name].is_output):
                self.lines.append(f".output {name}")
            if name in declared and declared[name].is_input:
                self.lines.append(f".input {name}")
        aggregated = dict.fromkeys(rule.head.relation for rule in self.rules if _aggregates(rule))
        for name in aggregated:
            self.aggregate(name, [rule for rule in self.rules if rule.head.relation == name])
        for rule in self.rules:
            if rule.head.relation not in aggregated:
                self.lines.append(self.clause(rule.head, rule.body))
        self.rng.shuffle(self.lines)
        return "\n".join([*(f"#define {name} {value}" for name, value in self.macros.items()), *self.lines]) + "\n"

    def declare(self, name: str, kinds: Sequence[str]) -> None:
        """Add the declaration of a relation."""
        columns = ", ".join(f"c{place}: {kind}" for place, kind in enumerate(kinds))
        tag = self.rng.choice(("", " btree", " magic", " no_inline"))
        self.lines.append(f".decl {name}({columns}){tag}")

    # ---- clauses ---------------------------------------------------------------------------------------------------

    def clause(self, head: syntax.AtomNode, body: Conjunction) -> str:
        """Return a clause or a fact."""
        return f"{self.atom(head)}{f' :- {self.conjunction(body)}' if body else ''}."

    def aggregate(self, name: str, rules: list[syntax.RuleNode]) -> None:
        """Add the clauses of a relation with aggregates in its heads."""
        alternatives = [(rule.head, body) for rule in rules for body in _alternatives(rule.body)]
        arguments = rules[0].head.arguments
        places = [place for place, a in enumerate(arguments) if isinstance(a, syntax.AggregateNode)]
        functions = [a.function for a in arguments if isinstance(a, syntax.AggregateNode)]
        recursive = any(name in _relations(rule.body) for rule in rules)
        if len(places) == 1 and functions[0] in ("min", "max") and (recursive or self.rng.random() < 0.5):
            self.subsume(name, places[0], functions[0], rules)
            return
        assert not recursive
        head, body = alternatives[0]
        group = [a for a in head.arguments if not isinstance(a, syntax.AggregateNode)]
        plain = all(isinstance(a, syntax.VariableNode) for a in group)
        if len(alternatives) == 1 and plain and self.rng.random() < 0.7:
            self.direct(head, body)
        else:
            self.by_rows(name, alternatives)

    def subsume(self, name: str, place: int, function: str, rules: list[syntax.RuleNode]) -> None:
        """Add the clauses of a least or greatest value, with a subsumption."""
        for rule in rules:
            values = [a.argument if isinstance(a, syntax.AggregateNode) else a for a in rule.head.arguments]
            arguments = ", ".join(self.value(value) for value in values if value is not None)
            body = f" :- {self.conjunction(rule.body)}" if rule.body else ""
            self.lines.append(f"{name}({arguments}){body}.")
        less, greater = ([f"x{p}" for p in range(len(self.columns[name]))] for _ in range(2))
        less[place], greater[place] = "low", "high"
        test = self.rng.choice(("high < low", "low > high") if function == "min" else ("low < high", "high >= low"))
        self.lines.append(f"{name}({', '.join(less)}) <= {name}({', '.join(greater)}) :- {test}.")

    def direct(self, head: syntax.AtomNode, body: Conjunction) -> None:
        """Add a clause with aggregates over the body of the rule, whose other variables are named otherwise outside."""
        shared = {a.name for a in head.arguments if isinstance(a, syntax.VariableNode)}
        arguments, parts = [], []
        inner = self.conjunction(body)
        for place, argument in enumerate(head.arguments):
            if not isinstance(argument, syntax.AggregateNode):
                arguments.append(self.value(argument))
                continue
            function = _AGGREGATES.get(argument.function, argument.function)
            # What is aggregated is local, even where it has the name of a variable of the group.
            target = "" if function == "count" else self.value(argument.argument) if argument.argument else ""
            if function != "count" and shared & _variables((argument.argument,)):
                target, inner_ = "aggregated", f"{inner}, aggregated = {target}"
            else:
                inner_ = inner
            found = f"{function} {target} : {{ {inner_} }}"
            if self.rng.random() < 0.5:
                arguments.append(found)
            else:
                arguments.append(f"v{place}")
                parts.append(f"v{place} = {found}")
        renamed = {name: f"o_{name}" for name in _variables(body) - shared}
        outer = self.conjunction(tuple(_renamed(literal, renamed) for literal in body))
        self.lines.append(f"{head.relation}({', '.join(arguments)}) :- {', '.join([outer, *parts])}.")

    def by_rows(self, name: str, alternatives: list[tuple[syntax.AtomNode, Conjunction]]) -> None:
        """Add a relation with a row for each derivation of any rule, and a clause that aggregates over it."""
        named = [(head, _named(body)) for head, body in alternatives]
        kinds = [self.kinds(body) for _, body in named]
        most = {kind: max(list(found.values()).count(kind) for found in kinds) for kind in _FILLING}
        further = [kind for kind, number in most.items() for _ in range(number)]
        columns = self.columns[name]
        given = alternatives[0][0].arguments
        values = [
            "number" if isinstance(a, syntax.AggregateNode) and a.function in ("count", "sum", "avg") else kind
            for a, kind in zip(given, columns, strict=True)
        ]
        self.declare(f"{name}_rows", ["number", *values, *further])
        for number, ((head, body), found) in enumerate(zip(named, kinds, strict=True)):
            arguments = [str(number)]
            for argument in head.arguments:
                counted = isinstance(argument, syntax.AggregateNode) and argument.function == "count"
                value = argument.argument if isinstance(argument, syntax.AggregateNode) else argument
                arguments.append("0" if value is None or counted else self.value(value))
            for kind in _FILLING:
                own = [variable for variable, k in sorted(found.items()) if k == kind]
                arguments += [*own, *[_FILLING[kind]] * (most[kind] - len(own))]
            self.lines.append(f"{name}_rows({', '.join(arguments)}) :- {self.conjunction(body)}.")
        group = [None if isinstance(a, syntax.AggregateNode) else f"g{place}" for place, a in enumerate(given)]
        ends = ["_"] * len(further)
        heads, parts = [], [f"{name}_rows({', '.join(['_', *(g or '_' for g in group), *ends])})"]
        for place, argument in enumerate(given):
            if not isinstance(argument, syntax.AggregateNode):
                heads.append(str(group[place]))
                continue
            function = _AGGREGATES.get(argument.function, argument.function)
            inner = [g or ("v" if p == place else "_") for p, g in enumerate(group)]
            target = "" if function == "count" else "v"
            atom = f"{name}_rows({', '.join(['_', *inner, *ends])})"
            atom = f"{{ {atom} }}" if self.rng.random() < 0.5 else atom
            heads.append(f"a{place}")
            parts.append(f"a{place} = {function} {target} : {atom}")
        self.lines.append(f"{name}({', '.join(heads)}) :- {', '.join(parts)}.")

    def kinds(self, body: Conjunction) -> dict[str, str]:
        """Return the types of the variables of a conjunction."""
        found: dict[str, str] = {}
        for literal in body:
            if isinstance(literal, syntax.AtomNode):
                for argument, kind in zip(literal.arguments, self.columns[literal.relation], strict=True):
                    if isinstance(argument, syntax.VariableNode):
                        found[argument.name] = kind
            match literal:
                case syntax.ComparisonNode("=", syntax.VariableNode(name), right) if _is_text(right):
                    found[name] = "symbol"
        for name in _variables(body):
            found.setdefault(name, "number")
        return found

    # ---- literals --------------------------------------------------------------------------------------------------

    def conjunction(self, body: Conjunction) -> str:
        """Return the literals of a conjunction."""
        return ", ".join(map(self.literal, body))

    def literal(self, literal: syntax.Literal) -> str:
        """Return a literal."""
        match literal:
            case syntax.AtomNode():
                return self.atom(literal)
            case syntax.NegationNode(syntax.AtomNode() as atom):
                return self.rng.choice(("!{}", "!({})", "!!!{}")).format(self.atom(atom))
            case syntax.ComparisonNode(op, left, right):
                text = f"{self.value(left)} {{}} {self.value(right)}"
                if op != "=" and self.rng.random() < 0.3:
                    return f"!({text.format(_NEGATED[op])})"
                return text.format(op)
            case syntax.Disjunction(alternatives):
                return f"({' ; '.join(map(self.conjunction, alternatives))})"
        raise AssertionError(literal)

    def atom(self, atom: syntax.AtomNode) -> str:
        """Return an atom."""
        return f"{atom.relation}({', '.join(map(self.value, atom.arguments))})"

    def value(self, value: syntax.Expression) -> str:
        """Return an expression, with more parentheses than it needs."""
        match value:
            case syntax.VariableNode(name):
                return name
            case syntax.WildcardNode():
                return "_"
            case syntax.ConstantNode():
                return self.constant(value)
            case syntax.Unary(_, operand):
                return f"-({self.value(operand)})"
            case syntax.BinaryNode("++", left, right):
                return f"cat({self.value(left)}, {self.value(right)})"
            case syntax.BinaryNode(op, left, right):
                return f"({self.value(left)} {op} {self.value(right)})"
            case syntax.CallNode("least" | "greatest" as name, arguments):
                return f"{'min' if name == 'least' else 'max'}({', '.join(map(self.value, arguments))})"
        raise AssertionError(value)

    def constant(self, constant: syntax.ConstantNode) -> str:
        """Return a constant: in one of its spellings, or as a macro."""
        if isinstance(constant.value, str):
            return f'"{constant.value}"'
        if constant.kind == "int" and isinstance(constant.value, int) and constant.value >= 0:
            spelling = self.rng.choice(("{}", "{}", "0x{:x}", "0b{:b}", "{}u")).format(constant.value)
            if self.rng.random() < 0.2:
                self.macros[f"N{constant.value}"] = spelling
                return f"N{constant.value}"
            return spelling
        return str(constant.value)


def _is_text(value: syntax.Expression) -> bool:
    """Return whether a value is certainly a string."""
    match value:
        case syntax.ConstantNode(kind="string") | syntax.BinaryNode("++"):
            return True
    return False


def _aggregates(rule: syntax.RuleNode) -> bool:
    return any(isinstance(a, syntax.AggregateNode) for a in rule.head.arguments)


def _alternatives(body: Conjunction) -> list[Conjunction]:
    """Return the conjunctions that a body stands for."""
    parts = [
        [c for part in literal.alternatives for c in _alternatives(part)]
        if isinstance(literal, syntax.Disjunction)
        else [(literal,)]
        for literal in body
    ]
    return [tuple(itertools.chain(*choice)) for choice in itertools.product(*parts)]


def _parts(node: object) -> Iterable[object]:
    """Yield a node and all that it consists of."""
    yield node
    match node:
        case syntax.AtomNode():
            inner: Iterable[object] = node.arguments
        case syntax.NegationNode():
            inner = (node.atom,)
        case syntax.ComparisonNode() | syntax.BinaryNode():
            inner = (node.left, node.right)
        case syntax.Unary():
            inner = (node.operand,)
        case syntax.CallNode():
            inner = node.arguments
        case syntax.Disjunction():
            inner = itertools.chain(*node.alternatives)
        case _:
            inner = ()
    for part in inner:
        yield from _parts(part)


def _variables(nodes: Iterable[object]) -> set[str]:
    return {part.name for node in nodes for part in _parts(node) if isinstance(part, syntax.VariableNode)}


def _relations(nodes: Iterable[object]) -> set[str]:
    return {part.relation for node in nodes for part in _parts(node) if isinstance(part, syntax.AtomNode)}


def _named(body: Conjunction) -> Conjunction:
    """Return a conjunction with variables instead of the wildcards of its atoms."""
    count = itertools.count(1)
    return tuple(
        syntax.AtomNode(
            literal.relation,
            tuple(
                syntax.VariableNode(f"w{next(count)}", a.span) if isinstance(a, syntax.WildcardNode) else a
                for a in literal.arguments
            ),
            None,
            None,
            literal.span,
        )
        if isinstance(literal, syntax.AtomNode)
        else literal
        for literal in body
    )


def _renamed(node: syntax.Literal, names: Mapping[str, str]) -> syntax.Literal:
    """Return a literal with other variables."""

    def value(given: syntax.Expression) -> syntax.Expression:
        match given:
            case syntax.VariableNode(name, span):
                return syntax.VariableNode(names.get(name, name), span)
            case syntax.Unary(op, operand, span):
                return syntax.Unary(op, value(operand), span)
            case syntax.BinaryNode(op, left, right, span):
                return syntax.BinaryNode(op, value(left), value(right), span)
            case syntax.CallNode(name, arguments, span):
                return syntax.CallNode(name, tuple(map(value, arguments)), span)
        return given

    match node:
        case syntax.AtomNode(relation, arguments, location, at, span):
            return syntax.AtomNode(relation, tuple(map(value, arguments)), location, at, span)
        case syntax.NegationNode(syntax.AtomNode() as atom, span):
            made = _renamed(atom, names)
            assert isinstance(made, syntax.AtomNode)
            return syntax.NegationNode(made, span)
        case syntax.ComparisonNode(op, left, right, span):
            return syntax.ComparisonNode(op, value(left), value(right), span)
        case syntax.Disjunction(alternatives, span):
            parts = tuple(tuple(_renamed(literal, names) for literal in part) for part in alternatives)
            return syntax.Disjunction(parts, span)
    raise AssertionError(node)
