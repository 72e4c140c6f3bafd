"""Prints programs of the oracle in DDlog, in one of the ways to write them."""

from __future__ import annotations

import random
import re

from flintlog.compiler.ir import syntax, typed

from golden_tests.oracle.random_programs import FEATURES

#: What random programs may show in DDlog.
EXPRESSIBLE = (FEATURES - {"paths", "input_derived", "nullary"}) | {
    "distinct",
    "lists",
    "functions",
    "many facts",
    "multisets",
}

#: Ints of random programs are written with one of these types: the values all fit.
_INTS = ("s64", "bigint", "signed<64>")
_CALLS = {"contains": "string_contains", "startswith": "string_starts_with", "endswith": "string_ends_with"}


class Inexpressible(Exception):
    """Raised for a construct that DDlog does not have."""


def printed(program: syntax.SyntaxProgram, types: typed.TypedProgram, rng: random.Random) -> str:
    """Return a program, with its types, in DDlog. Raise Inexpressible if DDlog lacks something of it."""
    return _Printer(program, types, rng).text()


def named(relation: str) -> str:
    """Return what a relation is called in DDlog."""
    return relation[0].upper() + relation[1:]


class _Printer:
    """The relations of a program and the choices of how to write them."""

    def __init__(self, program: syntax.SyntaxProgram, types: typed.TypedProgram, rng: random.Random) -> None:
        self.program, self.rng = program, rng
        self.types = {relation.name: relation for relation in types.relations}
        self.int = rng.choice(_INTS)
        self.outputs = {relation.name for relation in types.relations if relation.output}
        #: Relations whose columns are one structure.
        self.declared: set[str] = set()
        self.bound: set[str] = set()
        self.packed = {name for name in self.types if rng.random() < 0.2 and self.types[name].columns}

    def text(self) -> str:
        """Return the program."""
        lines = []
        for name, relation in self.types.items():
            columns = ", ".join(f"{c.name.lower()}_: {self.type(c.type)}" for c in relation.columns)
            given = relation.role == "input" or relation.multiset
            role = "input " if given else "output " if name in self.outputs else ""
            kind = "multiset" if relation.multiset else "relation"
            key = ""
            if relation.key:
                fields = [f"r.{relation.columns[place].name.lower()}_" for place in relation.key]
                key = f" primary key (r) {fields[0] if len(fields) == 1 else '(' + ', '.join(fields) + ')'}"
            if name in self.packed:
                lines.append(f"typedef {name}_t = {named(name)}Row{{{columns}}}")
                lines.append(f"{role}{kind} {named(name)}[{name}_t]{key}")
            else:
                lines.append(f"{role}{kind} {named(name)}({columns}){key}")
        for rule in self.program.statements:
            if isinstance(rule, syntax.RuleNode):
                lines.append(self.rule(rule))
        return "\n".join(lines) + "\n"

    def type(self, type_: typed.Type) -> str:
        """Return a type."""
        if type_.element is not None and type_.name == "list":
            return f"Vec<{self.type(type_.element)}>"
        found = {"int": self.int, "string": "string", "bool": "bool", "float": "double"}.get(type_.name)
        if found is None or type_.optional:
            raise Inexpressible(str(type_))
        return found

    # ---- rules -----------------------------------------------------------------------------------------------------

    def rule(self, rule: syntax.RuleNode) -> str:
        """Return a rule or a fact; the literals in an order in which each binds what later ones use."""
        aggregates = [a for a in rule.head.arguments if isinstance(a, syntax.AggregateNode)]
        self.declared = set()
        body = [self.literal(literal) for literal in self.ordered(rule.body)]
        if not aggregates:
            return f"{self.atom(rule.head)}{' :- ' * bool(body)}{', '.join(body)}."
        if len(aggregates) > 1 or len(self.rules_of(rule.head.relation)) > 1:
            raise Inexpressible("several aggregates")
        keys, arguments = [], []
        for argument in rule.head.arguments:
            if isinstance(argument, syntax.AggregateNode):
                arguments.append("agg_")
                continue
            name = f"key{len(keys)}_"
            body.append(f"var {name} = {self.value(argument)}")
            keys.append(name)
            arguments.append(name)
        (aggregate,) = aggregates
        function = {"count": "count_distinct" if aggregate.distinct else "count"}.get(
            aggregate.function, aggregate.function
        )
        if function not in ("count", "count_distinct", "sum", "min", "max") or (
            aggregate.distinct and function == "sum"
        ):
            raise Inexpressible(function)
        value = "0" if aggregate.argument is None else self.value(aggregate.argument)
        body.append(f"var of_ = {value}")
        body.append(f"var found_ = of_.group_by(({', '.join(keys)})).{function}()")
        counted = aggregate.function == "count"
        body.append(f"var agg_ = found_{f' as {self.int}' * counted}")
        return f"{self.called(rule.head.relation, arguments)} :- {', '.join(body)}."

    def rules_of(self, relation: str) -> list[syntax.RuleNode]:
        """Return the rules of a relation."""
        rules = [s for s in self.program.statements if isinstance(s, syntax.RuleNode)]
        return [rule for rule in rules if rule.head.relation == relation]

    def ordered(self, body: tuple[syntax.Literal, ...]) -> list[syntax.Literal]:
        """Return literals so that atoms come first, then assignments and conditions when their variables are bound."""
        atoms = [literal for literal in body if isinstance(literal, syntax.AtomNode) and literal.relation in self.types]
        rest = [literal for literal in body if literal not in atoms]
        self.rng.shuffle(atoms)
        self.bound = {
            name for atom in atoms for a in atom.arguments if isinstance(a, syntax.VariableNode) for name in [a.name]
        }
        late: list[syntax.Literal] = []
        for atom in list(atoms):
            used = {n for a in atom.arguments if not isinstance(a, syntax.VariableNode) for n in variables_of(a)}
            if used and len(atoms) > 1:
                atoms.remove(atom)
                late.append(atom)
        if late:
            raise Inexpressible("an expression among the arguments of an atom")
        found: list[syntax.Literal] = [*atoms]
        while rest:
            ready = [literal for literal in rest if self.ready(literal)]
            if not ready:
                raise Inexpressible("alternatives that bind variables")
            literal = self.rng.choice(ready)
            rest.remove(literal)
            found.append(literal)
            if isinstance(literal, syntax.ComparisonNode):
                self.bound |= variables_of(literal.left) | variables_of(literal.right)
        return found

    def ready(self, literal: syntax.Literal) -> bool:
        """Return whether all variables of a literal are bound, or it assigns the only one that is not."""
        match literal:
            case syntax.ComparisonNode(op, left, right):
                if op in ("=", ":="):
                    for one, other in ((left, right), (right, left)):
                        if isinstance(one, syntax.VariableNode) and variables_of(other) <= self.bound:
                            return True
                return variables_of(left) | variables_of(right) <= self.bound
            case syntax.NegationNode(syntax.AtomNode() as atom):
                return all(variables_of(a) <= self.bound for a in atom.arguments)
            case syntax.AtomNode():
                return all(variables_of(a) <= self.bound for a in literal.arguments)
        raise Inexpressible("alternatives")

    def literal(self, literal: syntax.Literal) -> str:
        """Return a literal; assignments are those of variables that are new."""
        match literal:
            case syntax.AtomNode(relation) if relation in self.types:
                text = self.atom(literal)
                self.declared |= {n for a in literal.arguments for n in variables_of(a)}
                return text
            case syntax.AtomNode():
                return self.value(syntax.CallNode(literal.relation, literal.arguments, literal.span))
            case syntax.NegationNode(syntax.AtomNode() as atom) if atom.relation in self.types:
                return f"not {self.atom(atom)}"
            case syntax.NegationNode(syntax.AtomNode() as atom):
                return f"not {self.value(syntax.CallNode(atom.relation, atom.arguments, atom.span))}"
            case syntax.ComparisonNode(op, left, right):
                for one, other in ((left, right), (right, left)):
                    new = isinstance(one, syntax.VariableNode) and one.name not in self.declared
                    if op in ("=", ":=") and new and isinstance(one, syntax.VariableNode):
                        self.declared.add(one.name)
                        return f"var {variable(one.name)} = {self.value(other)}"
                sign = "==" if op in ("=", ":=") else op
                return f"{self.value(left)} {sign} {self.value(right)}"
        raise Inexpressible("alternatives")

    def atom(self, atom: syntax.AtomNode) -> str:
        """Return an atom, by positions or by names."""
        return self.called(atom.relation, list(map(self.value, atom.arguments)))

    def called(self, relation: str, arguments: list[str]) -> str:
        """Return an atom with the given arguments."""
        if relation not in self.types:
            raise Inexpressible(relation)
        if self.rng.random() < 0.3:
            pairs = zip(self.types[relation].columns, arguments, strict=True)
            arguments = [f".{column.name.lower()}_ = {argument}" for column, argument in pairs]
        if relation in self.packed:
            return f"{named(relation)}[{named(relation)}Row{{{', '.join(arguments)}}}]"
        return f"{named(relation)}({', '.join(arguments)})"

    # ---- values ----------------------------------------------------------------------------------------------------

    def value(self, value: syntax.Expression) -> str:
        """Return an expression, with more parentheses than it needs."""
        match value:
            case syntax.VariableNode(name):
                return variable(name)
            case syntax.WildcardNode():
                return "_"
            case syntax.ConstantNode():
                return self.constant(value)
            case syntax.Unary(_, operand):
                return f"-({self.value(operand)})"
            case syntax.BinaryNode("++", left, right):
                plain = isinstance(left, syntax.VariableNode) and self.rng.random() < 0.5
                if plain and re.match(r"[STCD]\d*$", getattr(left, "name", "")):
                    return f'("${{{self.value(left)}}}" ++ {self.value(right)})'
                return f"({self.value(left)} ++ {self.value(right)})"
            case syntax.BinaryNode(op, left, right):
                return f"({self.value(left)} {op} {self.value(right)})"
            case syntax.CallNode(name, arguments) if name in _CALLS:
                return f"{_CALLS[name]}({', '.join(map(self.value, arguments))})"
            case syntax.ListNode(items) if items:
                return f"[{', '.join(map(self.value, items))}]"
        raise Inexpressible(str(value))

    def constant(self, constant: syntax.ConstantNode) -> str:
        """Return a constant."""
        if isinstance(constant.value, bool):
            return str(constant.value).lower()
        if isinstance(constant.value, str):
            return f'"{constant.value}"'
        if constant.kind == "int" and constant.value >= 0 and self.rng.random() < 0.2:
            return hex(int(constant.value))
        return str(constant.value)


def variable(name: str) -> str:
    """Return a variable in lower case."""
    return f"v_{name.lower()}" if name.lower() in ("in", "as", "or") else f"{name.lower()}"


def variables_of(expression: syntax.Expression) -> set[str]:
    """Return the variables of an expression."""
    match expression:
        case syntax.VariableNode(name):
            return {name}
        case syntax.Unary(_, operand):
            return variables_of(operand)
        case syntax.BinaryNode(_, left, right):
            return variables_of(left) | variables_of(right)
        case syntax.CallNode(_, arguments):
            return {name for argument in arguments for name in variables_of(argument)}
        case syntax.ListNode(items):
            return {name for item in items for name in variables_of(item)}
    return set()
