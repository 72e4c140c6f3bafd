"""The whole flow on one screen: source text in, plan out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .diagnostics import CompileError, Diagnostic, Diagnostics
from .frontend import Load, read_program
from .ir import delta, localized, plan, strata, syntax
from .ir.syntax_printer import syntax_text
from .ir.typed import Program as TypedProgram
from .passes.annotate_derivations import annotate_derivations
from .passes.check_safety import check_safety
from .passes.derive_deltas import derive_deltas
from .passes.expand_paths import expand_paths
from .passes.infer_types import infer_types
from .passes.linearize import linearize
from .passes.localize import localize
from .passes.mark_closures import mark_closures
from .passes.plan_stages import plan_stages
from .passes.project_negations import project_negations
from .passes.resolve import resolve
from .passes.split_aggregates import split_aggregates
from .passes.split_inputs import split_inputs
from .passes.stratify import stratify
from .passes.warn_invention import warn_invention
from .source import SourceFile, Span


@dataclass(frozen=True)
class Pass:
    """A step from one representation to the next; ``stage`` is the name of what it makes, for ``--dump``."""

    stage: str
    run: Callable[[Any, Diagnostics], Any]


def _typed(program: syntax.Program, diagnostics: Diagnostics) -> TypedProgram:
    resolved = infer_types(resolve(expand_paths(program, diagnostics), diagnostics), diagnostics)
    check_safety(resolved, diagnostics)
    return resolved


def _rewritten(program: TypedProgram, diagnostics: Diagnostics) -> TypedProgram:
    split = split_inputs(split_aggregates(program))
    if split.recursion == "ranks":
        split = linearize(split)
    return mark_closures(project_negations(annotate_derivations(split, diagnostics)))


def _strata(program: localized.Program, diagnostics: Diagnostics) -> strata.Program:
    stratified = stratify(program, diagnostics)
    warn_invention(stratified, diagnostics)
    return stratified


#: The passes in order. Each may assume what the one before it leaves, and reports into the same diagnostics; a pass
#: that reported an error is the last one.
PASSES = (
    Pass("typed", _typed),
    Pass("rewritten", _rewritten),
    Pass("localized", localize),
    Pass("strata", _strata),
    Pass("delta", lambda program, _: derive_deltas(program)),
    Pass("plan", lambda program, _: plan_stages(program)),
)

#: The stages that ``--dump`` prints, in order.
STAGES = ("syntax", *(step.stage for step in PASSES))


@contextmanager
def refusing_depth(main: SourceFile) -> Iterator[None]:
    """Turn a RecursionError of the body into a CompileError about a program."""
    try:
        yield
    except RecursionError:
        message = "the program is nested deeper than the compiler can follow"
        help = "compute parts of it in assignments or in relations of their own"
        raise CompileError([Diagnostic("E0711", message, Span(main.name, 1, 1, 1), help)], (main,)) from None


@dataclass(frozen=True)
class Compilation:
    """A compiled program: every stage of it, and the warnings."""

    syntax: syntax.Program
    typed: TypedProgram
    rewritten: TypedProgram
    localized: localized.Program
    strata: strata.Program
    delta: delta.Program
    plan: plan.Program
    warnings: tuple[Diagnostic, ...]

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """The program's files, the main one first."""
        return self.syntax.sources

    def dump(self, stage: str) -> str:
        """The text form of a stage, one of :data:`STAGES`."""
        if stage == "syntax":
            return syntax_text(self.syntax)
        return str(getattr(self, stage))


def compile_program(
    source: Path | SourceFile,
    load: Load | None = None,
    recursion: str = syntax.RECURSIONS[0],
    include_path: Sequence[Path] = (),
) -> Compilation:
    """Read a program and run all passes.

    ``recursion`` is one of :data:`.syntax.RECURSIONS`; includes may also lie below the folders of ``include_path``.

    Raises :class:`~flintlog.compiler.diagnostics.CompileError` with all diagnostics if the program is refused, and
    OSError if the main file cannot be read.
    """
    diagnostics = Diagnostics()
    program = replace(read_program(source, diagnostics, load, include_path), recursion=recursion)
    for process in program.processes[:1]:
        help = "compile it with --target processes"
        diagnostics.report("E0704", "this program has processes, and is not one script", process.span, help=help)
    return run_passes(program, diagnostics)


def run_passes(program: syntax.Program, diagnostics: Diagnostics) -> Compilation:
    """Run all passes on a program that was read; raises CompileError as :func:`compile_program` does."""
    representation: Any = program
    made = {"syntax": representation}
    try:
        with refusing_depth(program.sources[0]):
            for step in PASSES:
                representation = step.run(representation, diagnostics)
                diagnostics.check()
                made[step.stage] = representation
    except CompileError as error:
        raise CompileError(error.diagnostics, program.sources) from None
    return Compilation(**made, warnings=diagnostics.sorted())
