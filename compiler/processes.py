"""Programs of several processes: each is compiled as a program of its own, all of them together as one to check.

What is recursive across processes is found in the whole program; relations of such a recursion are annotated with
their derivations in each process that has a part in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from .diagnostics import CompileError, Diagnostic, Diagnostics, Note
from .frontend import Load, read_program
from .ir import syntax, typed
from .ir.topology import Channel, Feed, Process, Topology
from .naming import counted
from .passes.components import components, is_recursive
from .passes.expand_paths import expand_paths
from .passes.infer_types import infer_types
from .passes.resolve import resolve
from .passes.split_processes import ProcessSyntax, owner, rewritten, split_processes
from .pipeline import Compilation, refusing_depth, run_passes
from .source import SourceFile, Span

#: What a program has in it if it has several processes, or is one.
_QUALIFIED = re.compile(r"[^\W\d]\w*\s*\.\s*[^\W\d]")


@dataclass(frozen=True)
class Processes:
    """Compiled processes by name, what connects them, and the whole program, as if it were one process."""

    topology: Topology
    compilations: Mapping[str, Compilation]
    whole: Compilation
    sources: tuple[SourceFile, ...]
    warnings: tuple[Diagnostic, ...]


def compile_any(
    program: Path | SourceFile,
    load: Load | None = None,
    outside: Collection[str] = (),
    recursion: str = syntax.RECURSIONS[0],
    include_path: Sequence[Path] = (),
) -> Compilation | Processes:
    """Compile a program of one process or of several; raises as :func:`compile_program`."""
    diagnostics = Diagnostics()
    read = replace(read_program(program, diagnostics, load, include_path), recursion=recursion)
    return _compiled([read], diagnostics, outside) if read.processes else run_passes(read, diagnostics)


def compile_processes(
    programs: Sequence[Path | SourceFile],
    load: Load | None = None,
    outside: Collection[str] = (),
    recursion: str = syntax.RECURSIONS[0],
    include_path: Sequence[Path] = (),
) -> Processes:
    """Compile the processes of some files, each file one process or several. Relations and processes named in
    ``outside`` may be read though no process derives them: they are fed from outside. ``recursion``, one of
    :data:`.syntax.RECURSIONS`, is for those inside a process. Includes may also lie below the folders of
    ``include_path``.

    Raises :class:`~flintlog.compiler.diagnostics.CompileError` with all diagnostics if they are refused, and OSError if
    a file cannot be read.
    """
    diagnostics = Diagnostics()
    read = [
        replace(read_program(program, diagnostics, load, include_path), recursion=recursion) for program in programs
    ]
    return _compiled(read, diagnostics, outside)


def belonging_together(
    programs: Sequence[Path], outside: Collection[str] = (), include_path: Sequence[Path] = ()
) -> list[tuple[Path, ...]]:
    """The files as they are to be compiled: each by itself, but for processes that read of a process that is not in
    their file. These belong together, and with those that they read of."""
    files: dict[Path, tuple[set[str], set[str]]] = {}
    for program in programs if len(programs) > 1 else ():
        with suppress(OSError):
            if not _QUALIFIED.search(program.read_text(encoding="utf-8", errors="replace")):
                continue
            found = split_processes([read_program(program, Diagnostics(), None, include_path)], Diagnostics())
            names = {process.name for process in found}
            read = {name for process in found for name in process.imports()}
            owners = {owner(name) for name in read if name not in outside} - names - {*outside}
            files[program] = names, owners
    wanted = set[str]().union(*(owners for _, owners in files.values()))
    together = tuple(path for path, (names, owners) in files.items() if owners or names & wanted)
    groups: list[tuple[Path, ...]] = [(program,) for program in dict.fromkeys(programs) if program not in together]
    groups += [together] if together else []
    places = {program: place for place, program in reversed(list(enumerate(programs)))}
    return sorted(groups, key=lambda group: places[group[0]])


def _compiled(read: Sequence[syntax.Program], diagnostics: Diagnostics, outside: Collection[str]) -> Processes:
    """Compile processes that were read."""
    sources = tuple({source.name: source for program in read for source in program.sources}.values())
    try:
        with refusing_depth(sources[0]):
            return _Compiler(read, sources, diagnostics, outside).run()
    except CompileError as error:
        raise CompileError(error.diagnostics, sources) from None


class _Compiler:
    """The processes while they are compiled."""

    def __init__(
        self,
        programs: Sequence[syntax.Program],
        sources: tuple[SourceFile, ...],
        diagnostics: Diagnostics,
        outside: Collection[str],
    ) -> None:
        self.sources, self.diagnostics, self.outside = sources, diagnostics, outside
        self.recursion = programs[0].recursion
        self.processes = split_processes(programs, diagnostics)
        diagnostics.check()
        self.by_name = {process.name: process for process in self.processes}
        #: The processes that have a relation of their own under a name.
        self.local: dict[str, list[str]] = {}

    def run(self) -> Processes:
        """Check how the processes fit together, and compile each."""
        whole = self.whole()
        known = self.inferred(whole)
        incomplete = {process.name for process in self.processes if self.check_imports(process, known)}
        compilations: dict[str, Compilation] = {}
        spanning = self.spanning(known) if not self.diagnostics.failed else []
        for process in self.processes:
            if process.name not in incomplete:
                program = self.program(process, known, spanning)
                with suppress(CompileError):
                    compilations[process.name] = run_passes(program, self.diagnostics)
        self.diagnostics.check()
        compiled = run_passes(whole, Diagnostics())
        topology = self.topology(known, spanning)
        return Processes(topology, compilations, compiled, self.sources, self.diagnostics.sorted())

    # ---- the whole program -----------------------------------------------------------------------------------------

    def whole(self) -> syntax.Program:
        """All processes as one program; names that are local to a process differ from those of the others."""
        for process in self.processes:
            for name in {*process.declared, *process.derived}:
                if "." not in name:
                    self.local.setdefault(name, []).append(process.name)
        labels: dict[str, int] = {}
        for process in self.processes:
            for statement in process.statements:
                if isinstance(statement, syntax.Rule) and statement.label:
                    labels[statement.label] = labels.get(statement.label, 0) + 1
        statements: list[syntax.Statement] = []
        shared: set[tuple[type, str]] = set()
        imported: set[str] = set()
        for process in self.processes:
            named = partial(self.name_in_whole, process.name)
            for statement in process.statements:
                if isinstance(statement, syntax.Typedef | syntax.ExternalFunction):
                    if (type(statement), statement.name) in shared:
                        continue
                    shared.add((type(statement), statement.name))
                elif isinstance(statement, syntax.RelationDeclaration) and not process.owns(statement.name):
                    if owner(statement.name) in self.by_name or statement.name in imported:
                        continue
                    imported.add(statement.name)
                elif isinstance(statement, syntax.Rule) and labels.get(statement.label or "", 0) > 1:
                    statement = replace(statement, label=f"{process.name}.{statement.label}")
                statements.append(rewritten(statement, named, {}))
        return syntax.Program(tuple(statements), self.sources, recursion=self.recursion)

    def name_in_whole(self, process: str, relation: str) -> str:
        """The name in the whole program of what a process calls ``relation``."""
        several = "." not in relation and len(self.local.get(relation, ())) > 1
        return f"{process}::{relation}" if several else relation

    def inferred(self, whole: syntax.Program) -> typed.Program:
        """The whole program with types, as far as they can be told; what is wrong with it is reported per process."""
        unheard = Diagnostics()
        return infer_types(resolve(expand_paths(whole, unheard), unheard), unheard)

    def spanning(self, known: typed.Program) -> list[frozenset[str]]:
        """The recursions that have relations of several processes, as names in the whole program."""
        found = []
        for members in components(known):
            rules = [rule for name in members for rule in known.rules_of(name)]
            owners = {self.owner_of(name) for name in members} - {""}
            if is_recursive(rules, frozenset(members)) and len(owners) > 1:
                found.append(frozenset(members))
        return found

    def owner_of(self, name: str) -> str:
        """The process of a relation of the whole program; empty if several have it."""
        if "::" in name:
            return name.partition("::")[0]
        return owner(name) or next(iter(self.local.get(name, ())), "")

    # ---- channels --------------------------------------------------------------------------------------------------

    def check_imports(self, process: ProcessSyntax, known: typed.Program) -> bool:
        """Report what nobody sends (E0736), and channels whose ends differ (E0737); whether relations are missing."""
        relations = known.by_name
        shared = {name for other in self.processes for name in other.declared}
        missing = False
        for name, span in process.imports().items():
            sender = self.by_name.get(owner(name))
            if sender is None or (name not in sender.derived and name not in sender.declared):
                if name not in self.outside and owner(name) not in self.outside:
                    self.nobody(process, name, span, sender)
                    missing = True
                elif name not in process.declared and name not in shared:
                    self.undeclared(process, name, span)
                    missing = True
                continue
            declared = process.declared.get(name)
            if declared is not None and name in relations:
                self.compare(process, declared, relations[name], sender)
        return missing

    def nobody(self, process: ProcessSyntax, name: str, span: Span, sender: ProcessSyntax | None) -> None:
        """Report a relation that is read though no process derives it."""
        message = f"no process outputs `{name}`, which `{process.name}` reads"
        if sender is None:
            help = f"there is no process `{owner(name)}`: give its file too, or feed it with --outside {name}"
            self.diagnostics.report("E0736", message, span, help=help)
            return
        own = sorted(relation for relation in sender.derived if owner(relation) == sender.name)
        help = f"`{sender.name}` outputs {', '.join(f'`{o}`' for o in own) or 'nothing'}"
        self.diagnostics.report("E0736", message, span, help=help, notes=(Note("the process is here", sender.span),))

    def undeclared(self, process: ProcessSyntax, name: str, span: Span) -> None:
        """Report a relation from outside that no process declares."""
        message = f"nothing says which columns `{name}` has, which is fed from outside"
        self.diagnostics.report("E0736", message, span, help=f"declare it: `input relation {name}(...)`")

    def compare(
        self, process: ProcessSyntax, declared: syntax.RelationDeclaration, sent: typed.Relation, sender: ProcessSyntax
    ) -> None:
        """Report a declared input that differs from what its process sends."""
        given = [column.type for column in sent.columns]
        wanted = typed_columns(declared, process, self.sources)
        place = sender.declared[sent.name].name_span if sent.name in sender.declared else sender.derived[sent.name]
        problem = ""
        if len(given) != len(wanted):
            problem = f"`{sender.name}` sends {counted(len(given), 'column')}, `{process.name}` reads {len(wanted)}"
        elif not any(kind in (typed.BROKEN, typed.UNKNOWN) for kind in (*given, *wanted)):
            for number, (one, other) in enumerate(zip(given, wanted, strict=True)):
                if one != other:
                    column = declared.columns[number].name
                    problem = f"`{sender.name}` sends `{column}` as `{one}`, `{process.name}` reads it as `{other}`"
                    break
        if problem:
            message = f"the ends of the channel `{sent.name}` do not agree: {problem}"
            notes = (Note(f"`{sender.name}` has it here", place),)
            self.diagnostics.report("E0737", message, declared.name_span, notes=notes)

    # ---- the processes ---------------------------------------------------------------------------------------------

    def program(
        self, process: ProcessSyntax, known: typed.Program, spanning: Sequence[frozenset[str]]
    ) -> syntax.Program:
        """A process as a program of its own: what it reads of others is an input, what others may read an output."""
        relations = known.by_name
        statements = list(process.statements)
        for name, span in process.imports().items():
            if name not in process.declared:
                columns = relations[name].columns if name in relations else ()
                statements.append(_declared_input(name, columns, span))
        outputs = {d.name for d in process.declared.values() if d.is_output}
        outputs |= {s.name for s in statements if isinstance(s, syntax.OutputDirective)}
        for name, span in process.derived.items():
            if owner(name) == process.name and name not in outputs:
                statements.append(syntax.OutputDirective(name, span))
        return syntax.Program(
            tuple(statements),
            process.sources,
            recursion=self.recursion,
            spanning=self.parts(process, spanning),
            process=process.name,
        )

    def parts(self, process: ProcessSyntax, spanning: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        """What of each recursion over several processes a process names, of those that it has a part in: who reads a
        relation without being part of the recursion needs its facts only."""
        names = {*process.declared, *process.derived, *process.imports()}
        found = (
            frozenset(name for name in names if self.name_in_whole(process.name, name) in members)
            for members in spanning
        )
        return tuple(part for part in found if not part.isdisjoint(process.derived))

    def topology(self, known: typed.Program, spanning: Sequence[frozenset[str]]) -> Topology:
        """What connects the processes."""
        relations = known.by_name
        places = {name: place for place, name in enumerate(relations)}
        processes, channels, feeds = [], [], []
        for process in self.processes:
            outputs = [name for name in process.derived if owner(name) == process.name and name in places]
            outputs.sort(key=places.__getitem__)
            processes.append(Process(process.name, process.span, tuple(outputs)))
            recursive = frozenset[str]().union(*self.parts(process, spanning))
            for name in process.imports():
                relation = relations[name]
                if owner(name) in self.by_name:
                    channels.append(Channel(name, owner(name), process.name, relation.columns, name in recursive))
                else:
                    feeds.append(Feed(name, process.name, relation.columns))
            for name, declaration in process.declared.items():
                if process.owns(name) and declaration.is_input:
                    columns = relations[self.name_in_whole(process.name, name)].columns
                    feeds.append(Feed(name, process.name, columns))
        recursions = tuple(tuple(sorted(members)) for members in spanning)
        return Topology(tuple(processes), tuple(channels), tuple(feeds), recursions)


def typed_columns(
    declared: syntax.RelationDeclaration, process: ProcessSyntax, sources: tuple[SourceFile, ...]
) -> list[typed.Type]:
    """The column types of a declaration, with the typedefs of its process."""
    statements = [s for s in process.statements if isinstance(s, syntax.Typedef)]
    program = resolve(syntax.Program((*statements, declared), sources), Diagnostics())
    return [column.type for column in program.relation(declared.name).columns]


def _declared_input(name: str, columns: Sequence[typed.Column], span: Span) -> syntax.RelationDeclaration:
    """An input that a process reads of another without declaring it."""
    made = tuple(syntax.ColumnDeclaration(c.name, _type_name(c.type, span), False, span) for c in columns)
    text = f"input relation {name}({', '.join(map(str, columns))})"
    return syntax.RelationDeclaration(name, made, True, False, False, False, (), None, span, span, text)


def _type_name(kind: typed.Type, span: Span) -> syntax.TypeName:
    """A type as a declaration would write it."""
    if kind.element is not None:
        return syntax.TypeName("list", (), _type_name(kind.element, span), span)
    parameters = (kind.precision, kind.scale) if kind.name == "decimal" else ()
    return syntax.TypeName(kind.name, parameters, None, span)
