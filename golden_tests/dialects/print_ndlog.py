"""Prints programs of the oracle in NDlog, in one of the ways to write them."""

from __future__ import annotations

import random
import re

from flintlog.compiler.ir import syntax
from flintlog.compiler.ir.syntax_printer import statement_text

from golden_tests.oracle.random_programs import FEATURES

#: What random programs may show in NDlog.
EXPRESSIBLE = (FEATURES - {"paths"}) | {"locations", "witnesses", "extremes", "lists", "functions", "many facts"}

_KEYS = {"int": "int32", "string": "str", "list": "list", "float": "double", "bool": "bool"}
#: The variables of lists in random programs.
_LISTS = re.compile(r"[LMK]\d*")


def printed(program: syntax.SyntaxProgram, rng: random.Random) -> str:
    """Return a program of Flintlog's language in NDlog."""
    return _Printer(program, rng).text()


class _Printer:
    """The relations of a program and the choices of how to write them."""

    def __init__(self, program: syntax.SyntaxProgram, rng: random.Random) -> None:
        self.program, self.rng = program, rng
        self.declared = {s.name: s for s in program.statements if isinstance(s, syntax.RelationDeclaration)}
        rules = [s for s in program.statements if isinstance(s, syntax.RuleNode)]
        self.rules = rules
        self.arities = {rule.head.relation: len(rule.head.arguments) for rule in rules}
        self.arities |= {name: len(declaration.columns) for name, declaration in self.declared.items()}
        self.macros: dict[str, str] = {}

    def text(self) -> str:
        """Return the program: tables first, in any order, then the rules."""
        lines = [line for name in self.arities for line in self.table(name)]
        outputs = {s.name for s in self.program.statements if isinstance(s, syntax.OutputDirective)}
        outputs |= {name for name, declaration in self.declared.items() if declaration.is_output}
        lines += [f"watch({name})." for name in sorted(outputs)]
        clauses = [self.clause(rule) for rule in self.rules]
        defines = [f"#define {name} {value}" for name, value in self.macros.items()]
        return "\n".join([*defines, *lines, *clauses]) + "\n"

    def table(self, name: str) -> list[str]:
        """Return the lines for a relation: a table, with a declaration where keys cannot say the types."""
        declaration = self.declared.get(name)
        places = range(self.arities[name])
        if declaration is None:
            keys = ", ".join(str(place + 1) for place in places)
            return [f"materialize({name}, infinity, infinity, keys({keys}))."]
        plain = all(column.type.name in ("int", "string") for column in declaration.columns)
        if declaration.is_derived or declaration.key or not plain or self.rng.random() < 0.2:
            text = statement_text(declaration).replace("output ", "")
            table = f"materialize({name}, infinity, infinity, keys())."
            return [f"//: {text}", *([table] if self.rng.random() < 0.5 else [])]
        keys = ", ".join(f"{p + 1}:{_KEYS[column.type.name]}" for p, column in enumerate(declaration.columns))
        return [f"materialize({name}, infinity, infinity, keys({keys}))."]

    def clause(self, rule: syntax.RuleNode) -> str:
        """Return a rule or a fact."""
        label = f"{rule.label} " if rule.label else ""
        body = f" :- {', '.join(map(self.literal, rule.body))}" if rule.body else ""
        return f"{label}{self.atom(rule.head)}{body}."

    def literal(self, literal: syntax.Literal) -> str:
        """Return a literal."""
        match literal:
            case syntax.AtomNode():
                return self.atom(literal)
            case syntax.NegationNode(syntax.AtomNode() as atom):
                return f"!{self.atom(atom)}"
            case syntax.ComparisonNode(op, left, right):
                sign = {"=": self.rng.choice(("=", "==")), "!=": self.rng.choice(("!=", "<>"))}.get(op, op)
                return f"{self.value(left)} {sign} {self.value(right)}"
            case syntax.Disjunction(alternatives):
                return f"({' || '.join(' && '.join(map(self.literal, part)) for part in alternatives)})"
        raise AssertionError(literal)

    def atom(self, atom: syntax.AtomNode) -> str:
        """Return an atom, with its address where the declaration has one, too."""
        declaration = self.declared.get(atom.relation)
        location = atom.location
        if location is None and declaration is not None:
            location = next((place for place, column in enumerate(declaration.columns) if column.located), None)
        parts = (("@" if place == location else "") + self.value(a) for place, a in enumerate(atom.arguments))
        return f"{atom.relation}({', '.join(parts)})"

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
                if self.is_list(value):
                    return f"f_concat({self.value(left)}, {self.value(right)})"
                return f"({self.value(left)} + {self.value(right)})"
            case syntax.BinaryNode(op, left, right):
                return f"({self.value(left)} {op} {self.value(right)})"
            case syntax.CallNode(name, arguments):
                return f"{name}({', '.join(map(self.value, arguments))})"
            case syntax.ListNode(items):
                return f"[{', '.join(map(self.value, items))}]"
            case syntax.AggregateNode(function, argument, False):
                name = f"a_{self.rng.choice((function, function.upper()))}"
                return f"{name}<{'*' if argument is None else self.value(argument)}>"
        raise AssertionError(value)

    def constant(self, constant: syntax.ConstantNode) -> str:
        """Return a constant: a symbol, a macro or the constant itself."""
        if isinstance(constant.value, bool):
            return str(constant.value).lower()
        if isinstance(constant.value, str):
            symbol = re.fullmatch(r"[a-z][a-z0-9]*", constant.value) and self.rng.random() < 0.5
            return constant.value if symbol else f'"{constant.value}"'
        if constant.kind == "int" and constant.value >= 0 and self.rng.random() < 0.3:
            self.macros[f"N{constant.value}"] = str(constant.value)
            return f"N{constant.value}"
        return str(constant.value)

    def is_list(self, value: syntax.Expression) -> bool:
        """Return whether a value of a random program is a list: the names of variables say so."""
        match value:
            case syntax.VariableNode(name):
                return bool(_LISTS.fullmatch(name))
            case syntax.BinaryNode(_, left, right):
                return self.is_list(left) or self.is_list(right)
            case syntax.ListNode():
                return True
            case syntax.CallNode(name):
                return name.startswith(("f_concat", "f_append", "f_init", "array_", "slice"))
        return False
