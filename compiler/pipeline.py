"""The compiler pipeline: reads a program and runs all passes up to the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .diagnostics import CompileError, Diagnostic, Diagnostics
from .frontend import Load, read_program
from .ir import delta, localized, plan, strata, syntax
from .ir.syntax_printer import syntax_text
from .ir.typed import TypedProgram
from .passes.annotate_derivations import annotate_derivations
from .passes.annotate_proofs import annotate_proofs
from .passes.bound_times import bound_times, refuse_time
from .passes.check_monotone import check_monotone
from .passes.check_safety import check_safety
from .passes.derive_deltas import derive_deltas
from .passes.expand_options import expand_options
from .passes.expand_paths import expand_paths
from .passes.find_matrices import find_matrices
from .passes.gather_facts import gather_facts
from .passes.infer_types import infer_types
from .passes.linearize import linearize
from .passes.localize import localize
from .passes.mark_closures import mark_closures
from .passes.plan_stages import plan_stages
from .passes.project_channels import project_channels
from .passes.project_negations import project_negations
from .passes.project_sends import project_sends
from .passes.resolve import resolve
from .passes.separate_groups import separate_groups
from .passes.split_aggregates import split_aggregates
from .passes.split_inputs import split_inputs
from .passes.split_nodes import split_nodes
from .passes.stratify import stratify
from .passes.warn_invention import warn_invention
from .source import SourceFile, Span


@dataclass(frozen=True)
class Pass:
    """A step from one representation to the next; a check returns the program that it is given.

    ``stage`` is the name of the result in :class:`Compilation`, if the pass completes a stage. Compilation stops after
    a pass that reports an error, unless it ``continues`` to report what the next pass finds too.
    """

    name: str
    run: Callable[[Any, Diagnostics], Any]
    stage: str = ""
    continues: bool = False


def _reporting(run: Callable[[Any, Diagnostics], Any], stage: str = "", continues: bool = False) -> Pass:
    return Pass(run.__name__, run, stage, continues)


def _rewriting(run: Callable[[Any], Any], stage: str = "") -> Pass:
    """Return a pass that reports nothing."""
    return Pass(run.__name__, lambda program, _: run(program), stage)


PASSES = (
    _reporting(expand_paths, continues=True),
    _reporting(resolve, continues=True),
    _reporting(expand_options, continues=True),
    _reporting(infer_types, continues=True),
    _reporting(check_safety, "typed"),
    _rewriting(project_channels),
    _rewriting(split_aggregates),
    _rewriting(split_inputs),
    _reporting(bound_times),
    _reporting(separate_groups),
    _rewriting(linearize),
    _reporting(annotate_derivations),
    _rewriting(project_negations),
    _reporting(annotate_proofs),
    _rewriting(mark_closures, "rewritten"),
    _reporting(localize, "localized"),
    _reporting(stratify, continues=True),
    _reporting(check_monotone),
    _reporting(warn_invention, "strata"),
    _rewriting(derive_deltas, "delta"),
    _rewriting(plan_stages),
    _rewriting(find_matrices),
    _rewriting(gather_facts, "plan"),
)
"""The passes in order. Each takes the result of the one before it and reports to the same diagnostics."""

_PLAIN, _LINEAR = (
    next(number for number, step in enumerate(PASSES) if step.name == name)
    for name in ("split_aggregates", "annotate_derivations")
)

NODE_PASSES = (
    *PASSES[:_PLAIN],
    Pass("split_aggregates", lambda program, _: split_aggregates(program, local=False)),
    *(
        Pass(step.name, refuse_time) if step.name == bound_times.__name__ else step
        for step in PASSES[_PLAIN + 1 : _LINEAR]
    ),
    _rewriting(project_negations),
    _reporting(localize),
    _rewriting(project_sends),
    _reporting(split_nodes),
    _rewriting(split_aggregates),
    *PASSES[_LINEAR:],
)
"""The passes for the program of each node of a located program: rules are localized first, and divided among nodes.
Witnesses of recursions stay with their extrema until it is known which recursions go through other nodes."""

STAGES = ("syntax", *(step.stage for step in PASSES if step.stage))
"""The stages, in order: the program as read, and the results of the passes that complete a stage."""

DUMPS = ("syntax", *(name for step in PASSES for name in (step.name, step.stage) if name))
"""The names of all representations, in order: the result of each pass, and behind it the stage that the pass
completes."""


@contextmanager
def refusing_depth(main: SourceFile) -> Iterator[None]:
    """Convert a RecursionError in the ``with`` block to a CompileError (E0711) about the program of file ``main``."""
    try:
        yield
    except RecursionError:
        message = "the program is nested too deeply"
        help = "compute parts of it in assignments or in separate relations"
        raise CompileError([Diagnostic("E0711", message, Span(main.name, 1, 1, 1), help)], (main,)) from None


@dataclass(frozen=True)
class Compilation:
    """A compiled program: its representation at each stage, the ``results`` of passes by name, and the warnings."""

    syntax: syntax.SyntaxProgram
    typed: TypedProgram
    rewritten: TypedProgram
    localized: localized.LocalizedProgram
    strata: strata.StratifiedProgram
    delta: delta.DeltaProgram
    plan: plan.ProgramPlan
    results: Mapping[str, Any]
    warnings: tuple[Diagnostic, ...]

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """The source files of the program, the main one first."""
        return self.syntax.sources

    def dump(self, name: str) -> str:
        """Return the text of a representation, one of :data:`DUMPS`."""
        result = self.results[name] if name in self.results else getattr(self, name)
        return syntax_text(result) if isinstance(result, syntax.SyntaxProgram) else str(result)


def compile_program(
    source: Path | SourceFile,
    load: Load | None = None,
    recursion: str = syntax.RECURSIONS[0],
    include_path: Sequence[Path] = (),
    dialect: str = "",
) -> Compilation:
    """Read a program and run all passes.

    ``recursion`` is one of :data:`.syntax.RECURSIONS`. Files below the folders of ``include_path`` can be included too.
    ``dialect`` is the language of the program, by default that of its suffix.

    Raises :class:`~flintlog.compiler.diagnostics.CompileError` with all diagnostics if the program has errors or
    processes (E0704), and OSError if the main file cannot be read.
    """
    diagnostics = Diagnostics()
    program = replace(read_program(source, diagnostics, load, include_path, dialect=dialect), recursion=recursion)
    for process in program.processes[:1]:
        help = "compile it with --target processes"
        diagnostics.report(
            "E0704", "a program with processes cannot be compiled to one script", process.span, help=help
        )
    return run_passes(program, diagnostics)


def run_passes(
    program: syntax.SyntaxProgram, diagnostics: Diagnostics, passes: Sequence[Pass] | None = None
) -> Compilation:
    """Run all passes, or those given, on a syntax tree; raise CompileError with all diagnostics if the program has
    errors."""
    representation: Any = program
    stages: dict[str, Any] = {"syntax": program}
    results: dict[str, Any] = {}
    try:
        with refusing_depth(program.sources[0]):
            for step in PASSES if passes is None else passes:
                representation = step.run(representation, diagnostics)
                if not step.continues:
                    diagnostics.check()
                results[step.name] = representation
                if step.stage:
                    stages[step.stage] = representation
    except CompileError as error:
        raise CompileError(error.diagnostics, program.sources) from None
    return Compilation(**stages, results=results, warnings=diagnostics.sorted())
