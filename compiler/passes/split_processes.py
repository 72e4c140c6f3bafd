"""Split programs into processes, and instantiate the patterns of processes.

Before (two files, or blocks of one file)::

    process Switch(n: int) {
      input relation host(hostID: int, switchID: int)
      Switch.host(id) :- host(id, n).
    }
    process S1 = Switch(1)
    process S3 {
      S3.host(id, 1) :- S1.host(id).
    }

After::

    S1:  input relation host(hostID: int, switchID: int)
         S1.host(id) :- host(id, 1).
    S3:  S3.host(id, 1) :- S1.host(id).

An unqualified name belongs to the process that it occurs in: ``host`` in S1 is neither ``S1.host`` nor the ``host`` of
another process. A relation of another process is read under its qualified name, and only that process derives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from ..diagnostics import Diagnostics, Note
from ..ir import syntax
from ..naming import counted
from ..source import SourceFile, Span

T = TypeVar("T")

_SHARED = (syntax.Typedef, syntax.FunctionDeclaration)
"""The statements outside of processes; all processes of a file share them."""


@dataclass(frozen=True)
class ProcessSyntax:
    """A process: its statements, those that it shares with other processes first, and their source files."""

    name: str
    statements: tuple[syntax.Statement, ...]
    sources: tuple[SourceFile, ...]
    span: Span

    @cached_property
    def declared(self) -> dict[str, syntax.RelationDeclaration]:
        """Return the first declaration of each declared relation, by name."""
        declarations = [s for s in self.statements if isinstance(s, syntax.RelationDeclaration)]
        return {declaration.name: declaration for declaration in reversed(declarations)}

    @cached_property
    def derived(self) -> dict[str, Span]:
        """Return the span of the first rule head of each derived relation, by name."""
        heads = [s.head for s in self.statements if isinstance(s, syntax.RuleNode)]
        return {head.relation: head.span.start(head.relation) for head in reversed(heads)}

    def owns(self, name: str) -> bool:
        """Return whether a relation belongs to this process, as ``S1.host`` and ``host`` do to S1."""
        return "." not in name or owner(name) == self.name

    def imports(self) -> dict[str, Span]:
        """Return the relations of other processes that this one mentions, with the span of the first mention."""
        spans: dict[str, Span] = {}
        for statement in self.statements:
            for name, span in mentioned(statement):
                if not self.owns(name):
                    spans.setdefault(name, span)
        return spans


def split_processes(programs: Sequence[syntax.SyntaxProgram], diagnostics: Diagnostics) -> tuple[ProcessSyntax, ...]:
    """Return the processes of all programs in source order; a file without process blocks is one process."""
    processes: list[ProcessSyntax] = []
    for program in programs:
        processes += _blocks(program, diagnostics) if program.processes else _file(program, diagnostics)
    first: dict[str, ProcessSyntax] = {}
    for process in processes:
        earlier = first.setdefault(process.name, process)
        if earlier is not process:
            notes = (Note("the first one is here", earlier.span),)
            message = f"there are two processes called `{process.name}`"
            diagnostics.report("E0731", message, process.span, notes=notes)
    for process in first.values():
        _check_heads(process, first, diagnostics)
    return tuple(first.values())


def owner(name: str) -> str:
    """Return the process that qualifies a relation's name, empty if it is unqualified."""
    return name.rpartition(".")[0]


def _blocks(program: syntax.SyntaxProgram, diagnostics: Diagnostics) -> Iterator[ProcessSyntax]:
    """Yield the processes of a file with process blocks; report E0732 and E0733."""
    shared = tuple(s for s in program.statements if isinstance(s, _SHARED))
    for statement in program.statements:
        if not isinstance(statement, _SHARED):
            help = "move it into a process; only typedefs and external functions are shared"
            diagnostics.report("E0733", "this statement is outside of the processes", statement.span, help=help)
    patterns = {p.name: p for p in program.processes if isinstance(p, syntax.ProcessBlock) and p.parameters}
    for process in program.processes:
        if isinstance(process, syntax.ProcessBlock) and not process.parameters:
            yield ProcessSyntax(process.name, (*shared, *process.statements), program.sources, process.span)
        elif isinstance(process, syntax.Instance):
            pattern = patterns.get(process.pattern)
            if pattern is None:
                message = f"there is no pattern `{process.pattern}` of processes"
                help = f"write one, as in `process {process.pattern}(n: int) {{ ... }}`"
                diagnostics.report("E0732", message, process.pattern_span, help=help)
            elif len(pattern.parameters) != len(process.arguments):
                takes = counted(len(pattern.parameters), "argument")
                message = f"`{pattern.name}` takes {takes}, not {len(process.arguments)}"
                diagnostics.report("E0732", message, process.span, notes=(Note("declared here", pattern.span),))
            else:
                yield ProcessSyntax(
                    process.name, (*shared, *_instantiated(pattern, process)), program.sources, process.span
                )


def _instantiated(pattern: syntax.ProcessBlock, instance: syntax.Instance) -> tuple[syntax.Statement, ...]:
    """Return the statements of a pattern with the name and the arguments of an instance substituted."""
    values = {
        parameter.name: argument for parameter, argument in zip(pattern.parameters, instance.arguments, strict=True)
    }

    def name(relation: str) -> str:
        own = owner(relation) == pattern.name
        return f"{instance.name}.{relation.rpartition('.')[2]}" if own else relation

    return tuple(rewritten(statement, name, values) for statement in pattern.statements)


def _file(program: syntax.SyntaxProgram, diagnostics: Diagnostics) -> Iterator[ProcessSyntax]:
    """Yield the process of a file without blocks, which qualifies what the file derives and outputs; report E0734."""
    heads = [s.head for s in program.statements if isinstance(s, syntax.RuleNode)]
    places = [(head.relation, head.span.start(head.relation)) for head in heads]
    for statement in program.statements:
        if isinstance(statement, syntax.RelationDeclaration) and statement.is_output:
            places.append((statement.name, statement.name_span))
        elif isinstance(statement, syntax.OutputDirective):
            places.append((statement.name, statement.span))
    qualified: dict[str, Span] = {}
    for relation, span in places:
        if owner(relation):
            qualified.setdefault(owner(relation), span)
    file = program.sources[0]
    if len(qualified) > 1:
        (first, _), (second, span), *_ = qualified.items()
        message = f"this file derives relations of two processes, `{first}` and `{second}`"
        notes = (Note(f"`{first}` is named here", qualified[first]),)
        help = "write each process in a separate file, or write `process NAME { ... }` around the rules of each"
        diagnostics.report("E0734", message, span, help=help, notes=notes)
    elif not qualified and not diagnostics.failed:
        message = "this file does not say which process it is"
        help = "qualify what it derives with its process, as in `S1.host(id) :- ...`, or write `process S1 { ... }`"
        diagnostics.report("E0734", message, file.span(0, 1), help=help)
    else:
        name = next(iter(qualified), file.name)
        yield ProcessSyntax(name, program.statements, program.sources, qualified.get(name, file.span(0, 1)))


def _check_heads(process: ProcessSyntax, known: Mapping[str, ProcessSyntax], diagnostics: Diagnostics) -> None:
    """Report relations of other processes that a process derives or outputs (E0735)."""
    places = list(process.derived.items())
    places += [(d.name, d.name_span) for d in process.declared.values() if d.is_output]
    places += [(s.name, s.span) for s in process.statements if isinstance(s, syntax.OutputDirective)]
    reported: set[str] = set()
    for relation, span in places:
        if process.owns(relation) or relation in reported:
            continue
        reported.add(relation)
        other = known.get(owner(relation))
        message = f"the process `{process.name}` cannot output `{relation}`"
        notes: tuple[Note, ...] = ()
        if other is not None and relation in other.derived:
            message = f"two processes output `{relation}`: `{other.name}` and `{process.name}`"
            notes = (Note(f"`{other.name}` derives it here", other.derived[relation]),)
        help = f"qualify the relations of a process with its name, as in `{process.name}.{relation.rpartition('.')[2]}`"
        diagnostics.report("E0735", message, span, help=help, notes=notes)


# ---- names in syntax -----------------------------------------------------------------------------------------------


def mentioned(node: object) -> Iterator[tuple[str, Span]]:
    """Yield the relations that a syntax node mentions, with their spans."""
    match node:
        case syntax.AtomNode():
            yield node.relation, node.span.start(node.relation)
        case syntax.PathStep():
            yield node.relation, node.span
        case syntax.RelationDeclaration():
            yield node.name, node.name_span
            return
        case syntax.OutputDirective():
            yield node.name, node.span
            return
    for part in _parts(node):
        yield from mentioned(part)


def rewritten(node: T, name: Callable[[str], str], values: Mapping[str, syntax.ConstantNode]) -> T:
    """Return a syntax node with relations renamed by ``name`` and variables replaced by ``values``."""
    copy: Any = node
    if isinstance(node, tuple):
        copy = tuple(rewritten(part, name, values) for part in node)
    elif isinstance(node, syntax.VariableNode) and node.name in values:
        copy = replace(values[node.name], span=node.span)
    elif is_dataclass(node) and not isinstance(node, Span | type):
        changes = {f.name: rewritten(getattr(node, f.name), name, values) for f in fields(node)}
        if isinstance(node, syntax.AtomNode | syntax.PathStep):
            changes["relation"] = name(node.relation)
        elif isinstance(node, syntax.RelationDeclaration | syntax.OutputDirective):
            changes["name"] = name(node.name)
        copy = replace(node, **changes)
    result: T = copy
    return result


def _parts(node: object) -> Iterator[object]:
    if isinstance(node, tuple):
        yield from node
    elif is_dataclass(node) and not isinstance(node, Span | type):
        yield from (getattr(node, f.name) for f in fields(node))
