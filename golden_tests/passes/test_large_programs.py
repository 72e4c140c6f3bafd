"""Programs that programs write: twice the program takes twice the work, whatever there is much of.

Work is counted in calls of functions, not in seconds, so that it is the same on every machine.
"""

from __future__ import annotations

import gc
import importlib.util
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType

import black
import pytest
from click.testing import CliRunner
from flintlog.compiler import CompileOptions, emit
from flintlog.compiler.cli import main
from flintlog.compiler.diagnostics import CompileError, Diagnostics
from flintlog.compiler.frontend.parser import parse_statements
from flintlog.compiler.frontend.reader import MOST_CHARACTERS
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark import emit as script

from golden_tests.nightly import AT_NIGHT, by_day
from golden_tests.oracle.random_programs import random_scenario


def load_shapes() -> ModuleType:
    """The shapes of the benchmarks, which are scripts in a folder."""
    path = Path(__file__).parents[2] / "benchmarks" / "large_programs.py"
    spec = importlib.util.spec_from_file_location("large_programs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LARGE = load_shapes()
#: A rule of n literals has n delta rules of n literals each: what is printed for it is a square.
SQUARES = ("literals in a rule", "literals that share a variable")
#: What is nested in these is 100 deep at most, since the compiler refuses more.
NESTED = ("comparisons in a rule", "steps of a path", "strings joined")
#: How much more often a function may be called for twice the program, unless it is called no more than FEW times.
MOST = 2.4
FEW = 400
MOST_OF_SQUARES = 4.5


def calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function is called, those that are not Python's own by whom."""
    counts: Counter[str] = Counter()

    def hear(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call":
            counts[f"{code.co_filename}: {code.co_qualname}"] += 1
        elif event == "c_call":
            counts[f"{code.co_filename}: {code.co_qualname} calls {getattr(argument, '__name__', '')}"] += 1

    # Finalizers of other tests' objects would be counted with whatever call they interrupt.
    gc.collect()
    gc.disable()
    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return counts


def compile_shape(name: str, size: int) -> None:
    """Compile a program of some shape and size, and print its script without formatting it."""
    source = SourceFile("program.dl", LARGE.SHAPES[name][0](size))
    if name == "processes":
        compile_processes([source])
        return
    emit(compile_program(source), CompileOptions(format=False, compiler="test"))


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile something of each kind, so that caches and imports are not counted."""
    for name, size in (("rules", 10), ("processes", 2), ("facts", 2)):
        compile_shape(name, size)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=AT_NIGHT if number % 32 else ())
        for number, name in enumerate(name for name in LARGE.SHAPES if name not in NESTED)
    ],
)
def test_work_grows_with_the_program(name: str) -> None:
    """For twice the program no function is called much more than twice as often."""
    size = max(LARGE.SHAPES[name][1] // 50, 24 if name in SQUARES else 12)
    once, twice = (calls(lambda size=size: compile_shape(name, size)) for size in (size, 2 * size))
    most = MOST_OF_SQUARES if name in SQUARES else MOST
    found = {what: (once[what], count) for what, count in twice.items() if count > max(most * once[what], FEW)}
    assert found == {}, f"calls for {size} and {2 * size}"


@by_day(1)
@pytest.mark.parametrize("name", ["rules", "relations in a recursion, shuffled", "negations", "facts of strings"])
def test_scripts_are_formatted_as_black_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands aside while black works would have been left as it is."""
    check_formatting(LARGE.SHAPES[name][0](12), monkeypatch)


@pytest.mark.parametrize("seed", random.Random(18).sample(range(100_000), 6))
def test_random_scripts_are_formatted_as_black_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for programs of all kinds."""
    check_formatting(random_scenario(seed).text, monkeypatch)


@pytest.mark.parametrize(
    "program",
    [
        'input relation e(x: string)\np("a\'b", "say \\"no\\"", "both \' and \\"", "\\\\", "ü", "") :- e("\'").',
        "input relation e(x: int)\np(X) :- e(X), " + ", ".join(f"X != {n} + X * {n}" for n in range(12)) + ".",
        "input relation e(x: int) primary key (x)\nlong" + "er" * 50 + "(X) :- e(X), X > 1.\np :- e(_).",
        "relation p(x: int)\nq(X) :- p(X).",
    ],
    ids=["quotes", "steps", "long names", "no rules"],
)
def test_odd_lines_are_formatted_as_black_does(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, lines that are too long, tuples of nothing."""
    check_formatting(program, monkeypatch)


def check_formatting(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with what black alone makes of what the templates print."""
    printed: list[str] = []
    formatted = script.format_script

    def keep(text: str) -> str:
        printed.append(text)
        return formatted(text)

    monkeypatch.setattr(script, "format_script", keep)
    emit(compile_program(SourceFile("program.dl", program)), CompileOptions(compiler="test"))
    (text,) = printed
    assert sum(end - start for start, end in script._settled(text)) > len(text) // 3
    assert formatted(text) == black.format_str(text, mode=black.Mode(line_length=100))


def test_a_text_of_any_length_is_refused_at_once() -> None:
    """50 MB of rules are not read statement by statement."""
    rule = "p(X) :- e(X).\n"
    few, many = (
        calls(lambda count=count: refuse(rule * count))
        for count in (MOST_CHARACTERS // len(rule) + 1, 50_000_000 // len(rule))
    )
    assert max(few.total(), many.total()) < 10_000


def refuse(text: str) -> None:
    """Compile a text that is too long."""
    with pytest.raises(CompileError, match="E0126"):
        compile_program(SourceFile("program.dl", text))


def test_a_program_without_end() -> None:
    """It is refused once it is longer than any program may be."""
    found = CliRunner().invoke(main, ["check", "/dev/zero"], catch_exceptions=False)
    assert found.exit_code == 1 and "error[E0126]" in found.output


def test_chained_comparisons() -> None:
    """Each ``<`` might begin an aggregate, whose end is not searched for anew."""
    few, many = (calls(lambda count=count: parsed(f"p(X) :- q(X), X{' < X' * count}.\n")) for count in (1000, 2000))
    assert many.total() < 2.2 * few.total()


@pytest.mark.parametrize("text", ['p("%s").', "/* %s */ p(1).", "/* %s"], ids=["string", "comment", "open"])
def test_long_tokens_take_little_memory(text: str) -> None:
    """Less than a hundred bytes for each character."""
    parsed("p(1).")
    tracemalloc.start()
    parsed(text % ("x" * 200_000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 * 200_000


def parsed(text: str) -> None:
    """Parse a program."""
    list(parse_statements(SourceFile("program.dl", text), Diagnostics()))
