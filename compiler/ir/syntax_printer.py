"""Prints a syntax tree as a program, one statement per line, in a canonical spelling.

Reading the printed text and printing it again gives the same text::

    input relation link(@src: int, dst: int) primary key (src, dst)
    r1: reachable(@S, D) :- link(@S, D) ; (link(@S, Z), reachable(@Z, D)).
"""

from __future__ import annotations

from decimal import Decimal

from . import syntax

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def syntax_text(program: syntax.SyntaxProgram) -> str:
    """Return the statements of ``program``, included files too, each on its own line."""
    return "".join(statement_text(statement) + "\n" for statement in program.statements)


def statement_text(statement: syntax.Statement) -> str:
    """Return a statement in the syntax of the language."""
    match statement:
        case syntax.RelationDeclaration():
            return _declaration(statement)
        case syntax.OutputDirective():
            return f"output {statement.name}."
        case syntax.Typedef():
            return f"typedef {statement.name} = {_type(statement.type)}"
        case syntax.Domain():
            return f"domain {_atom(statement.atom)}."
        case syntax.FunctionDeclaration():
            parameters = ", ".join(f"{column.name}: {_type(column.type)}" for column in statement.parameters)
            return f"extern function {statement.name}({parameters}): {_type(statement.result)}"
        case syntax.RuleNode():
            return rule_text(statement)


def process_text(process: syntax.ProcessBlock | syntax.Instance) -> str:
    """Return a process, with its statements, in the syntax of the language."""
    if isinstance(process, syntax.Instance):
        arguments = f"({', '.join(map(_constant, process.arguments))})" if process.arguments else ""
        return f"process {process.name} = {process.pattern}{arguments}"
    parameters = ", ".join(f"{column.name}: {_type(column.type)}" for column in process.parameters)
    lines = [f"process {process.name}{f'({parameters})' if parameters else ''} {{"]
    return "\n".join([*lines, *map(statement_text, process.statements), "}"])


def rule_text(rule: syntax.RuleNode) -> str:
    """Return a rule in the syntax of the language."""
    label = f"{rule.label}: " if rule.label else ""
    body = f" :- {_body(rule.body)}" if rule.body else ""
    return f"{label}{_atom(rule.head)}{body}."


def _declaration(declaration: syntax.RelationDeclaration) -> str:
    columns = ", ".join(
        f"{'@' if column.located else ''}{column.name}: {_type(column.type)}{'?' if column.optional else ''}"
        for column in declaration.columns
    )
    parts = [
        "input" if declaration.is_input else "",
        "output" if declaration.is_output else "",
        "derived" if declaration.is_derived else "",
        "multiset" if declaration.is_multiset else "",
        "relation",
        declaration.name + (f"({columns})" if columns else "") + _at(declaration.at),
        f"primary key ({', '.join(column.name for column in declaration.key)})" if declaration.key else "",
        "symmetric" if declaration.symmetric else "",
    ]
    return " ".join(part for part in parts if part)


def _type(name: syntax.TypeName) -> str:
    if name.element is not None:
        return f"{name.name}<{_type(name.element)}>"
    return f"{name.name}({','.join(map(str, name.parameters))})" if name.parameters else name.name


def _body(body: tuple[syntax.Literal, ...]) -> str:
    if len(body) == 1 and isinstance(body[0], syntax.Disjunction):
        return " ; ".join(_alternative(alternative) for alternative in body[0].alternatives)
    return ", ".join(map(literal_text, body))


def _alternative(alternative: tuple[syntax.Literal, ...]) -> str:
    text = ", ".join(map(literal_text, alternative))
    return f"({text})" if len(alternative) > 1 else text


def literal_text(literal: syntax.Literal) -> str:
    """Return a literal in the syntax of the language."""
    match literal:
        case syntax.AtomNode():
            return _atom(literal)
        case syntax.PathLiteral():
            return f"({path_text(literal.path)})({_expression(literal.left)}, {_expression(literal.right)})"
        case syntax.NegationNode():
            return f"!{literal_text(literal.atom)}"
        case syntax.ComparisonNode():
            return f"{_expression(literal.left)} {literal.op} {_expression(literal.right)}"
        case syntax.Disjunction():
            return f"({' ; '.join(', '.join(map(literal_text, alternative)) for alternative in literal.alternatives)})"


def path_text(path: syntax.Path) -> str:
    """Return a path in the syntax of the language, with the parentheses it needs."""
    match path:
        case syntax.PathStep():
            return path.relation
        case syntax.PathInverse():
            return f"^{_path_operand(path.path)}"
        case syntax.PathSequence():
            return "/".join(
                f"({path_text(p)})" if isinstance(p, syntax.PathChoice) else path_text(p) for p in path.parts
            )
        case syntax.PathChoice():
            return "|".join(map(path_text, path.options))
        case syntax.PathRepeat():
            return f"{_path_operand(path.path)}{path.op}"


def _path_operand(path: syntax.Path) -> str:
    text = path_text(path)
    return text if isinstance(path, syntax.PathStep) else f"({text})"


def _atom(atom: syntax.AtomNode) -> str:
    if not atom.arguments:
        return atom.relation + _at(atom.at)
    arguments = ", ".join(
        f"{'@' if place == atom.location else ''}{_expression(argument)}"
        for place, argument in enumerate(atom.arguments)
    )
    return f"{atom.relation}({arguments})"


def _at(at: syntax.ConstantNode | None) -> str:
    return "" if at is None else f"@{_constant(at)}"


def _expression(expression: syntax.Expression) -> str:
    match expression:
        case syntax.VariableNode():
            return expression.name
        case syntax.WildcardNode():
            return "_"
        case syntax.ConstantNode():
            return _constant(expression)
        case syntax.Unary():
            return f"{expression.op}{_operand(expression.operand)}"
        case syntax.BinaryNode():
            return f"{_operand(expression.left)} {expression.op} {_operand(expression.right)}"
        case syntax.CallNode():
            return f"{expression.name}({', '.join(map(_expression, expression.arguments))})"
        case syntax.ListNode():
            return f"[{', '.join(map(_expression, expression.items))}]"
        case syntax.AggregateNode() if expression.limit:
            order = ", ".join(f"{_expression(part.value)}{' desc' * part.descending}" for part in expression.order)
            return f"{expression.function}<{expression.limit}{order and f' by {order}'}>"
        case syntax.AggregateNode():
            argument = "*" if expression.argument is None else _expression(expression.argument)
            return f"{expression.function}<{'distinct ' if expression.distinct else ''}{argument}>"


def _operand(expression: syntax.Expression) -> str:
    text = _expression(expression)
    return f"({text})" if isinstance(expression, syntax.BinaryNode | syntax.Unary) else text


def _constant(constant: syntax.ConstantNode) -> str:
    if isinstance(constant.value, bool):
        return "true" if constant.value else "false"
    if constant.kind == "null":
        return "null"
    if constant.kind in ("date", "timestamp"):
        return f'{constant.kind}"{constant.value}"'
    if isinstance(constant.value, str):
        return '"' + "".join(_ESCAPES.get(character, character) for character in constant.value) + '"'
    if isinstance(constant.value, Decimal):
        text = f"{constant.value:f}"
        return text if "." in text else f"{text}.0"
    return str(constant.value)
