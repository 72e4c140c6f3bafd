"""The compiler: turns distributed Datalog programs into scripts of jobs that maintain their views.

    from pathlib import Path
    from flintlog.compiler import compile_source

    compile_source(Path("reach.dl")).write(Path("jobs"))

Programs with errors raise :class:`flintlog.compiler.diagnostics.CompileError`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flintlog.runtime.addons.processes.partition import Partition
    from flintlog.targets import EmitOptions

    from .diagnostics import Diagnostic
    from .frontend import Load
    from .nodes import NodeProgram
    from .pipeline import Compilation
    from .processes import Processes
    from .source import SourceFile

__all__ = ["CompileOptions", "Compiled", "compile_process_files", "compile_source", "emit"]


def _version() -> str:
    # Imported here because it is slow to import and most commands do not need it.
    from importlib.metadata import version

    return version("flintlog")


@dataclass(frozen=True)
class CompileOptions:
    """Options of the compiler: the ``target``, whether to ``format`` the output, the method of maintaining recursions
    (``ranks`` or ``derivation-sets``), the version that headers name (``compiler``, by default that of the installed
    package), the folders below which includes may lie besides that of the program (``include_path``), where scripts
    find the ``runtime`` (``standalone``, ``beside`` or ``installed``), which optional ``parts`` of it standalone
    scripts have, and the ``dialect`` that programs are written in, by default that of their suffixes.
    """

    target: str = "pyspark"
    format: bool = True
    recursion: str = "ranks"
    compiler: str = field(default_factory=_version)
    include_path: tuple[Path, ...] = ()
    runtime: str = "standalone"
    parts: tuple[str, ...] = ()
    dialect: str = ""

    @property
    def emitting(self) -> EmitOptions:
        """The options that are passed to the target."""
        from flintlog.targets import EmitOptions

        return EmitOptions(self.compiler, self.format, self.runtime, self.parts)

    @property
    def shared(self) -> Mapping[str, bytes]:
        """The files that all scripts of a folder share, by name: with the runtime ``beside`` them, its archive."""
        from flintlog.targets.runtimes import runtime_files

        return runtime_files(self.emitting)


@dataclass(frozen=True)
class Compiled:
    """A compiled program: the texts of its files by name, all its intermediate representations, and the files that it
    shares with other programs, by name."""

    files: Mapping[str, str]
    compilation: Compilation
    shared: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings about the program."""
        return self.compilation.warnings

    def write(self, folder: Path) -> None:
        """Write all files into a folder, which is made if there is none."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {**self.shared, **{name: text.encode() for name, text in self.files.items()}}.items():
            (folder / name).write_bytes(content)


def compile_source(
    source: SourceFile | Path, options: CompileOptions | None = None, load: Load | None = None
) -> Compiled:
    """Compile a program, given as a path or as its source, to the files of a target.

    ``load`` finds includes, by default below the folder of the path and those of ``options.include_path``; without it,
    a source cannot include files. Raises :class:`~flintlog.compiler.diagnostics.CompileError` with all diagnostics if
    the program has errors, OSError if the path cannot be read, and KeyError if the target is unknown.
    """
    from .pipeline import compile_program

    options = options or CompileOptions()
    compilation = compile_program(source, load, options.recursion, options.include_path, options.dialect)
    return Compiled(emit(compilation, options), compilation, options.shared)


def compile_process_files(
    programs: Sequence[SourceFile | Path],
    options: CompileOptions | None = None,
    load: Load | None = None,
    outside: Collection[str] = (),
) -> tuple[Mapping[str, str], Processes]:
    """Compile the processes of ``programs`` to the files of the target ``processes``, by name. Relations and processes
    named in ``outside`` are fed from outside. Where the options share files, the scripts need these, too. Raises
    CompileError and OSError as :func:`compile_source` does."""
    from flintlog.targets.processes.emit import emit_processes

    from .pipeline import refusing_depth
    from .processes import compile_processes

    options = options or CompileOptions()
    processes = compile_processes(programs, load, outside, options.recursion, options.include_path, options.dialect)
    plans = {name: compilation.plan for name, compilation in processes.compilations.items()}
    with refusing_depth(processes.sources[0]):
        return emit_processes(processes.topology, plans, options.emitting), processes


def compile_node_files(
    program: SourceFile | Path, partition: Partition, options: CompileOptions | None = None, load: Load | None = None
) -> tuple[Mapping[str, str], NodeProgram]:
    """Compile a located program to the files of the target ``processes``, by name: one script for all nodes, which
    divide the addresses by ``partition``. Where the options share files, the script needs these, too. Raises
    CompileError and OSError as :func:`compile_source` does."""
    from flintlog.targets.processes.emit import emit_nodes

    from .nodes import compile_nodes
    from .pipeline import refusing_depth

    options = options or CompileOptions()
    nodes = compile_nodes(program, load, options.recursion, options.include_path, options.dialect)
    with refusing_depth(nodes.sources[0]):
        return emit_nodes(nodes.node.plan, partition, options.emitting), nodes


def emit(compilation: Compilation, options: CompileOptions) -> Mapping[str, str]:
    """Return the files of a compiled program: their texts by name, without those that the options share.

    Raises KeyError if the target is unknown, and CompileError if the program is nested too deeply.
    """
    from flintlog.targets import target

    from .pipeline import refusing_depth

    with refusing_depth(compilation.sources[0]):
        return target(options.target).emit(compilation.plan, options.emitting)
