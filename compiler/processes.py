"""Compiles programs of several processes.

Each process is compiled separately, and all together as one program to check them. Recursions across processes are
found in the whole program; each process that takes part in one annotates its relations with proofs or derivation sets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from .diagnostics import CompileError, Diagnostic, Diagnostics, Note
from .frontend import Load, read_program
from .ir import syntax, typed
from .ir.narrowed import Narrowed
from .ir.spanning import Spanning
from .ir.topology import Feed, Topology, TopologyChannel, TopologyProcess
from .naming import counted, unused
from .passes.components import components, is_recursive
from .passes.expand_paths import expand_paths
from .passes.infer_types import infer_types
from .passes.project_sends import all_columns, needed_columns
from .passes.resolve import resolve
from .passes.split_aggregates import witnesses
from .passes.split_processes import ProcessSyntax, owner, rewritten, split_processes
from .pipeline import Compilation, refusing_depth, run_passes
from .source import SourceFile, Span

_PROCESS = re.compile(r"[^\W\d]\w*\s*\.\s*[^\W\d]|\bprocess\b")
"""A qualified name such as ``S1.host``, or the beginning of a process; files without either exchange no tuples with
other processes."""


@dataclass(frozen=True)
class Processes:
    """Compiled processes by name (``compilations``), their ``topology``, and all as one program (``whole``)."""

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
    dialect: str = "",
) -> Compilation | Processes:
    """Compile a program of one process or of several. ``dialect`` is its language, by default that of its suffix.
    Raises errors as :func:`compile_processes` does."""
    diagnostics = Diagnostics()
    read = replace(read_program(program, diagnostics, load, include_path, dialect=dialect), recursion=recursion)
    return _compiled([read], diagnostics, outside) if read.processes else run_passes(read, diagnostics)


def compile_processes(
    programs: Sequence[Path | SourceFile],
    load: Load | None = None,
    outside: Collection[str] = (),
    recursion: str = syntax.RECURSIONS[0],
    include_path: Sequence[Path] = (),
    dialect: str = "",
) -> Processes:
    """Compile the processes of ``programs``, each with one or several. Relations and processes named in ``outside`` are
    fed from outside, so they may be read although no process derives them. ``recursion``, one of
    :data:`.syntax.RECURSIONS`, applies inside processes. Files below the folders of ``include_path`` may be included.
    ``dialect`` is the language of the programs, by default that of their suffixes.

    Raises :class:`~flintlog.compiler.diagnostics.CompileError` with all diagnostics if there are errors, and OSError if
    a file cannot be read.
    """
    diagnostics = Diagnostics()
    root = _common_folder(programs) if load is None else None
    read = [read_program(program, diagnostics, load, include_path, root, dialect) for program in programs]
    return _compiled([replace(program, recursion=recursion) for program in read], diagnostics, outside)


def _common_folder(programs: Sequence[Path | SourceFile]) -> Path | None:
    """Return the folder that files of several folders are named relative to, so that no two files have one name; None
    if there is only one folder."""
    folders = {os.path.realpath(program.parent) for program in programs if isinstance(program, Path)}
    return Path(os.path.commonpath(folders)) if len(folders) > 1 else None


def belonging_together(
    programs: Sequence[Path],
    outside: Collection[str] = (),
    include_path: Sequence[Path] = (),
    dialect: str = "",
) -> list[tuple[Path, ...]]:
    """Return the groups of files to compile together: one group of all files whose processes read relations of
    processes in other files and of the files they read from, and a group of its own for each other file."""
    files: dict[Path, tuple[set[str], set[str]]] = {}
    for program in programs if len(programs) > 1 else ():
        with suppress(OSError):
            if not _PROCESS.search(program.read_text(encoding="utf-8", errors="replace")):
                continue
            processes = split_processes(
                [read_program(program, Diagnostics(), None, include_path, dialect=dialect)], Diagnostics()
            )
            names = {process.name for process in processes}
            read = {name for process in processes for name in process.imports()}
            owners = {owner(name) for name in read if name not in outside} - names - {*outside}
            files[program] = names, owners
    read_owners = set[str]().union(*(owners for _, owners in files.values()))
    together = tuple(path for path, (names, owners) in files.items() if owners or names & read_owners)
    groups: list[tuple[Path, ...]] = [(program,) for program in dict.fromkeys(programs) if program not in together]
    groups += [together] if together else []
    places = {program: place for place, program in reversed(list(enumerate(programs)))}
    return sorted(groups, key=lambda group: places[group[0]])


def _compiled(read: Sequence[syntax.SyntaxProgram], diagnostics: Diagnostics, outside: Collection[str]) -> Processes:
    """Compile the processes of parsed programs."""
    sources = tuple({source.name: source for program in read for source in program.sources}.values())
    try:
        with refusing_depth(sources[0]):
            return _Compiler(read, sources, diagnostics, outside).run()
    except CompileError as error:
        raise CompileError(error.diagnostics, sources) from None


class _Compiler:
    """Compiles the processes of programs; holds their syntax and their names in the whole program."""

    def __init__(
        self,
        programs: Sequence[syntax.SyntaxProgram],
        sources: tuple[SourceFile, ...],
        diagnostics: Diagnostics,
        outside: Collection[str],
    ) -> None:
        self.sources, self.diagnostics, self.outside = sources, diagnostics, outside
        self.recursion = programs[0].recursion
        self.processes = split_processes(programs, diagnostics)
        diagnostics.check()
        self.by_name = {process.name: process for process in self.processes}
        #: The processes that have a local relation of a name, by that name; set by :meth:`whole`.
        self.local: dict[str, list[str]] = {}
        #: For each recursion across processes, the processes that derive relations of it, and for each of these the
        #: relation in which it tells the others which of its base facts are gone; set by :meth:`spanning`.
        self.dead: list[dict[str, str]] = []
        #: The channels that carry only some columns of a relation, by reader and relation; set by :meth:`run`.
        self.only: dict[tuple[str, str], Narrowed] = {}

    def run(self) -> Processes:
        """Check that the processes fit together, and compile each; raise CompileError if there are errors."""
        whole = self.whole()
        inferred = self.inferred(whole)
        incomplete = {process.name for process in self.processes if self.check_imports(process, inferred)}
        compilations: dict[str, Compilation] = {}
        spanning = self.spanning(inferred) if not self.diagnostics.failed else []
        self.only = self.narrowed(inferred, spanning) if not self.diagnostics.failed else {}
        for process in self.processes:
            if process.name not in incomplete:
                program = self.program(process, inferred, spanning)
                with suppress(CompileError):
                    compilations[process.name] = run_passes(program, self.diagnostics)
        self.diagnostics.check()
        compiled = run_passes(whole, Diagnostics())
        topology = self.topology(inferred, spanning)
        return Processes(topology, compilations, compiled, self.sources, self.diagnostics.sorted())

    # ---- the whole program -----------------------------------------------------------------------------------------

    def whole(self) -> syntax.SyntaxProgram:
        """Return all processes as one program, where names and labels used in several are prefixed with the process."""
        for process in self.processes:
            for name in {*process.declared, *process.derived}:
                if "." not in name:
                    self.local.setdefault(name, []).append(process.name)
        labels: dict[str, int] = {}
        for process in self.processes:
            for statement in process.statements:
                if isinstance(statement, syntax.RuleNode) and statement.label:
                    labels[statement.label] = labels.get(statement.label, 0) + 1
        statements: list[syntax.Statement] = []
        shared: set[tuple[type, str]] = set()
        imported: set[str] = set()
        for process in self.processes:
            named = partial(self.name_in_whole, process.name)
            for statement in process.statements:
                if isinstance(statement, syntax.Typedef | syntax.FunctionDeclaration):
                    if (type(statement), statement.name) in shared:
                        continue
                    shared.add((type(statement), statement.name))
                elif isinstance(statement, syntax.RelationDeclaration) and not process.owns(statement.name):
                    if owner(statement.name) in self.by_name or statement.name in imported:
                        continue
                    imported.add(statement.name)
                elif isinstance(statement, syntax.RuleNode) and labels.get(statement.label or "", 0) > 1:
                    statement = replace(statement, label=f"{process.name}.{statement.label}")
                statements.append(rewritten(statement, named, {}))
        return syntax.SyntaxProgram(tuple(statements), self.sources, recursion=self.recursion)

    def name_in_whole(self, process: str, relation: str) -> str:
        """Return the name in the whole program of what ``process`` calls ``relation``."""
        several = "." not in relation and len(self.local.get(relation, ())) > 1
        return f"{process}::{relation}" if several else relation

    def inferred(self, whole: syntax.SyntaxProgram) -> typed.TypedProgram:
        """Return the whole program with types, as far as they can be inferred; errors are reported per process."""
        unheard = Diagnostics()
        return infer_types(resolve(expand_paths(whole, unheard), unheard), unheard)

    def spanning(self, known: typed.TypedProgram) -> list[frozenset[str]]:
        """Return the recursive components with relations of several processes, by names in the whole program."""
        groups = []
        names = {relation.name for relation in known.relations}
        for members in components(known):
            rules = [rule for name in members for rule in known.rules_of(name)]
            owners = {self.owner_of(name) for name in members} - {""}
            if is_recursive(rules, frozenset(members)) and len(owners) > 1:
                groups.append(frozenset(members))
                self.dead.append({name: unused(f"{name}.dead", names) for name in sorted(owners)})
                names.update(self.dead[-1].values())
        return groups

    def owner_of(self, name: str) -> str:
        """Return the process that owns a relation of the whole program, empty if none does."""
        if "::" in name:
            return name.partition("::")[0]
        return owner(name) or next(iter(self.local.get(name, ())), "")

    # ---- channels --------------------------------------------------------------------------------------------------

    def check_imports(self, process: ProcessSyntax, known: typed.TypedProgram) -> bool:
        """Report imports that nobody sends (E0736) and channels whose ends differ (E0737); return if any is missing."""
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
                    self.undeclared(name, span)
                    missing = True
                continue
            declared = process.declared.get(name)
            if declared is not None and name in relations:
                self.compare(process, declared, relations[name], sender)
        return missing

    def nobody(self, process: ProcessSyntax, name: str, span: Span, sender: ProcessSyntax | None) -> None:
        """Report (E0736) a relation that ``process`` reads although no process derives it."""
        message = f"no process outputs `{name}`, which `{process.name}` reads"
        if sender is None:
            help = f"there is no process `{owner(name)}`: add its file, or use --outside {name}"
            self.diagnostics.report("E0736", message, span, help=help)
            return
        own = sorted(relation for relation in sender.derived if owner(relation) == sender.name)
        help = f"`{sender.name}` outputs {', '.join(f'`{o}`' for o in own) or 'nothing'}"
        self.diagnostics.report("E0736", message, span, help=help, notes=(Note("the process is here", sender.span),))

    def undeclared(self, name: str, span: Span) -> None:
        """Report (E0736) a relation from outside that no process declares."""
        message = f"the columns of `{name}`, which is fed from outside, are not declared"
        self.diagnostics.report("E0736", message, span, help=f"declare it: `input relation {name}(...)`")

    def compare(
        self,
        process: ProcessSyntax,
        declared: syntax.RelationDeclaration,
        sent: typed.TypedRelation,
        sender: ProcessSyntax,
    ) -> None:
        """Report (E0737) a declared input whose columns differ in number or type from those that ``sender`` sends."""
        sent_types = [column.type for column in sent.columns]
        read_types = typed_columns(declared, process, self.sources)
        place = sender.declared[sent.name].name_span if sent.name in sender.declared else sender.derived[sent.name]
        problem = ""
        if len(sent_types) != len(read_types):
            sends = counted(len(sent_types), "column")
            problem = f"`{sender.name}` sends {sends}, `{process.name}` reads {len(read_types)}"
        elif not any(kind in (typed.BROKEN, typed.UNKNOWN) for kind in (*sent_types, *read_types)):
            for number, (one, other) in enumerate(zip(sent_types, read_types, strict=True)):
                if one != other:
                    column = declared.columns[number].name
                    problem = f"`{sender.name}` sends `{column}` as `{one}`, `{process.name}` reads it as `{other}`"
                    break
        if problem:
            message = f"the ends of the channel `{sent.name}` do not agree: {problem}"
            notes = (Note(f"the relation of `{sender.name}` is here", place),)
            self.diagnostics.report("E0737", message, declared.name_span, notes=notes)

    # ---- the processes ---------------------------------------------------------------------------------------------

    def program(
        self, process: ProcessSyntax, known: typed.TypedProgram, spanning: Sequence[frozenset[str]]
    ) -> syntax.SyntaxProgram:
        """Return a process as a program of its own: relations of others are inputs, those others may read outputs."""
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
        return syntax.SyntaxProgram(
            tuple(statements),
            process.sources,
            recursion=self.recursion,
            spanning=self.parts(process, known, spanning),
            process=process.name,
            narrowed=tuple(
                replace(narrowed, sent="") if reader == process.name else narrowed
                for (reader, name), narrowed in self.only.items()
                if process.name in (reader, owner(name))
            ),
        )

    def narrowed(
        self, known: typed.TypedProgram, spanning: Sequence[frozenset[str]]
    ) -> dict[tuple[str, str], Narrowed]:
        """Return the channels that carry only some columns of a relation, by reader and relation: the reader's rules
        need no others, it does not declare the relation, and the two are not parts of one recursion."""
        projections: dict[tuple[str, str], Narrowed] = {}
        names = {relation.name for relation in known.relations}
        by_owner: dict[str, list[typed.TypedRule]] = {}
        for rule in known.rules:
            by_owner.setdefault(self.owner_of(rule.head.relation), []).append(rule)
        for process in self.processes:
            rules = [*by_owner.get("", ()), *by_owner.get(process.name, ())]
            recursive = {name for part in self.parts(process, known, spanning) for name in part.members}
            for name in process.imports():
                relation = known.by_name.get(name)
                if relation is None or owner(name) not in self.by_name or name in process.declared or name in recursive:
                    continue
                kept = needed_columns(relation, rules)
                if kept == all_columns(relation):
                    continue
                sent = next((n.sent for n in projections.values() if (n.relation, n.columns) == (name, kept)), "")
                if not sent:
                    sent = unused("_".join([name, *(relation.columns[place].name for place in kept)]), names)
                    names.add(sent)
                projections[process.name, name] = Narrowed(name, kept, sent)
        return projections

    def parts(
        self, process: ProcessSyntax, known: typed.TypedProgram, spanning: Sequence[frozenset[str]]
    ) -> tuple[Spanning, ...]:
        """Return the parts of a process in the recursions across processes in which it derives relations. Other
        processes that read these relations need only their facts, not their derivations."""
        names = {*process.declared, *process.derived, *process.imports()}
        parts = []
        for members, dead in zip(spanning, self.dead, strict=True):
            own = frozenset(name for name in names if self.name_in_whole(process.name, name) in members)
            if not own.isdisjoint(process.derived):
                others = tuple(name for other, name in dead.items() if other != process.name)
                parts.append(self.part(process, known, own, dead[process.name], others))
        return tuple(parts)

    def part(
        self, process: ProcessSyntax, known: typed.TypedProgram, own: frozenset[str], dead: str, others: tuple[str, ...]
    ) -> Spanning:
        """Return the part of a process in a recursion of which it uses the relations ``own``."""
        heads = {
            name: rule.head
            for name in own
            for rule in known.rules_of(self.name_in_whole(process.name, name))
            if rule.aggregates
        }
        values = {
            (name, place)
            for name, head in heads.items()
            for place, argument in enumerate(head.arguments)
            if isinstance(argument, typed.Aggregate)
        }
        beside = {(name, place) for name, head in heads.items() for place in witnesses(head)}
        return Spanning(own, frozenset(heads), dead, others, values=frozenset(values), witnesses=frozenset(beside))

    def topology(self, known: typed.TypedProgram, spanning: Sequence[frozenset[str]]) -> Topology:
        """Return the processes, the channels between them, and the feeds from outside."""
        relations = known.by_name
        places = {name: place for place, name in enumerate(relations)}
        processes, channels, feeds = [], [], []
        for process in self.processes:
            outputs = [name for name in process.derived if owner(name) == process.name and name in places]
            outputs.sort(key=places.__getitem__)
            processes.append(TopologyProcess(process.name, process.span, tuple(outputs)))
            parts = self.parts(process, known, spanning)
            recursive = frozenset[str]().union(*(part.members for part in parts))
            for name in process.imports():
                relation = relations[name]
                if owner(name) in self.by_name:
                    columns, only = relation.columns, self.only.get((process.name, name))
                    if only:
                        columns = tuple(columns[place] for place in only.columns)
                    sent = only.sent if only else ""
                    ends = (owner(name), process.name)
                    channels.append(TopologyChannel(name, *ends, columns, name in recursive, sent=sent))
                else:
                    feeds.append(Feed(name, process.name, relation.columns))
            if self.recursion == "ranks":
                bounds = tuple(typed.TypedColumn(name, typed.STRING) for name in ("first", "last"))
                dead = [name for part in parts for name in part.others]
                channels += [TopologyChannel(name, owner(name), process.name, bounds, False, True) for name in dead]
            for name, declaration in process.declared.items():
                if process.owns(name) and declaration.is_input:
                    columns = relations[self.name_in_whole(process.name, name)].columns
                    feeds.append(Feed(name, process.name, columns))
        recursions = tuple(tuple(sorted(members)) for members in spanning)
        return Topology(tuple(processes), tuple(channels), tuple(feeds), recursions)


def typed_columns(
    declared: syntax.RelationDeclaration, process: ProcessSyntax, sources: tuple[SourceFile, ...]
) -> list[typed.Type]:
    """Return the column types of a declaration, resolved with the typedefs of its process."""
    statements = [s for s in process.statements if isinstance(s, syntax.Typedef)]
    program = resolve(syntax.SyntaxProgram((*statements, declared), sources), Diagnostics())
    return [column.type for column in program.relation(declared.name).columns]


def _declared_input(name: str, columns: Sequence[typed.TypedColumn], span: Span) -> syntax.RelationDeclaration:
    """Return the declaration of an input that a process reads from another without declaring it."""
    declared = tuple(syntax.ColumnDeclaration(c.name, _type_name(c.type, span), False, span) for c in columns)
    text = f"input relation {name}({', '.join(map(str, columns))})"
    return syntax.RelationDeclaration(name, declared, True, False, False, False, False, (), None, span, span, text)


def _type_name(kind: typed.Type, span: Span) -> syntax.TypeName:
    """Return the syntax of a type, as in a declaration."""
    if kind.element is not None:
        return syntax.TypeName("list", (), _type_name(kind.element, span), span)
    parameters = (kind.precision, kind.scale) if kind.name == "decimal" else ()
    return syntax.TypeName(kind.name, parameters, None, span)
