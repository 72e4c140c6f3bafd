"""Valid programs with random changes that keep most of their form: the compiler finds words for whatever is wrong.

Run ``python -m golden_tests.mutations FIRST LAST`` in the repository: a mutation for each seed from FIRST to LAST - 1,
of programs in all dialects unless ``--dialect`` says which. Every accident is printed with its seed and its program.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

from flintlog.compiler.diagnostics import CODES, LONGEST_MESSAGE, MOST_ERRORS, CompileError, Diagnostic, render
from flintlog.compiler.dialects import DIALECTS
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile, Span

from .addons.nodes.programs import located_program
from .checks import Checked, insertions
from .harness import ImportedJob
from .oracle.evaluate import NotStratified, RoundLimit
from .oracle.language import ProgramError, parse
from .oracle.random_programs import FEATURES, MORE_FEATURES, random_batches, random_inputs, random_program
from .packed import cases_of

ROOT = Path(__file__).parents[1]
#: So many seconds of processors a mutated program may take. Records in records of Soufflé take half of them.
SECONDS = 60
#: Rounds of a recursion over a few tuples.
MOST_ROUNDS = 60
#: The longest line of a message.
LONGEST_LINE = LONGEST_MESSAGE + 20

#: Comments, strings, names, numbers, operators and white space.
TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?:date|timestamp|[is])?"(?:\\.|[^"\\\n])*"|[.\#]?[A-Za-z_$?][\w]*(?:[.]\w+|::\w+)*"""
    r"""|\d+(?:\.\d+)?|:-|:=|!=|<=|>=|==|=>|\+\+|<-|->|.""",
    re.DOTALL,
)
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
LITERALS = (
    *("0", "1", "-1", "2", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.5", "0.1", "1e400"),
    *(
        "true",
        "false",
        "null",
        '""',
        '"a"',
        '"it\'s \\"; --"',
        '"\\u0000"',
        '"é日"',
        'date"2026-02-28"',
        "[]",
        "[1, 2]",
    ),
    *('date"0001-01-01"', 'timestamp"9999-12-31 23:59:59.999999"', "12345678901234567890123456789012345678", "[[]]"),
    *('["a", null]', "0.00000000000000000000000000000000000001", "_", "[1.5]", "-0.0", "date", "X"),
)
TYPES = (
    *("int", "float", "string", "bool", "date", "timestamp", "decimal(10,2)", "decimal(38,0)", "decimal(38,38)"),
    *("list<int>", "list<list<string>>", "int?", "string?", "float?", "decimal(10,2)?", "date?", "list<int>?", "any"),
)
AGGREGATES = ("min", "max", "sum", "count", "avg", "first", "count distinct", "sum distinct", "median")
OPERATORS = ("+", "-", "*", "/", "%", "++", "=", "!=", "<", "<=", ">", ">=")
FUNCTIONS = ("f_size", "int", "float", "string", "length", "least", "greatest", "round", "f_concatPath", "upper", "f")
WORDS = (
    *("symmetric", "primary key (x)", "multiset", "input", "output", "derived", "relation", "not", "!", "@", "_"),
    *("domain", "typedef", "include", "process", "extern function", "distinct", "by", "desc", "^", "+", "*", "?", "|"),
)
STRANGE = (
    *('"', "/*", "${", "}", "(", ")", "[", "'", "\\", "\n#", "#define A A", "@", ".", "::", "é", "\0", "0x", "9" * 30),
    *(">>", "\n#define", "\n#ifdef", "\n#if", "\n#else\n", "\n#endif\n", "\n#include", "\n#define A(X,", "##"),
)


@cache
def texts_of(dialect: str) -> tuple[str, ...]:
    """Valid programs, and for other dialects than Flintlog's own also some that are refused."""
    if dialect != "flintlog":
        folder = ROOT / "golden_tests/dialects" / dialect.partition("-")[0]
        files = [folder / name for name in ("programs.txt", "refused.txt")]
        return tuple(case.program for file in files for case in cases_of(file))
    patterns = ("golden_tests/cases/*/program.dl", "golden_tests/frontend/programs/*/program.dl", "examples/**/*.dl")
    paths = sorted(path for pattern in (*patterns, "golden_tests/cli/**/*.dl") for path in ROOT.glob(pattern))
    found = [path.read_text(encoding="utf-8") for path in paths]
    packed = sorted((ROOT / "golden_tests/passes").glob("*.txt"))
    for file in packed:
        for case in re.split(r"^==== .*\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            found.append(case.split("\n---- ", 1)[0] + "\n")
    return tuple(text for text in found if len(text) < 6000)


def text_for(dialect: str, rng: random.Random) -> str:
    """A valid program: a written one, or in Flintlog's own dialect also a random one."""
    kind = rng.randrange(4) if dialect == "flintlog" else 3
    if kind == 0:
        features = FEATURES | {name for name in MORE_FEATURES - {"nasty names"} if rng.random() < 0.4}
        return random_program(rng, features)
    if kind == 1:
        return located_program(rng, rng.choice(["int", "string"]))
    return rng.choice(texts_of(dialect))


class Mutation:
    """The tokens of a program, to be changed."""

    def __init__(self, text: str, rng: random.Random) -> None:
        """Split a program into tokens."""
        self.rng = rng
        self.tokens = TOKEN.findall(text)

    def words(self, of: str) -> list[int]:
        """The places of tokens of the same kind as ``of``."""
        kind = kind_of(of)
        return [place for place, token in enumerate(self.tokens) if kind_of(token) == kind]

    def groups(self) -> list[list[tuple[int, int]]]:
        """What stands between commas: in brackets, and in the bodies of clauses; each as begin and end."""
        found: list[list[tuple[int, int]]] = []
        opened: list[tuple[int, list[tuple[int, int]]]] = [(0, [])]
        for place, token in enumerate(self.tokens):
            if token in OPENING or token == ":-":
                opened.append((place + 1, []))
            elif token in CLOSING or (token == "." and len(opened) > 1):
                begin, items = opened.pop()
                if begin < place:
                    found.append([*items, (begin, place)])
                opened = opened or [(place + 1, [])]
            elif token in (",", ";") and opened:
                begin, items = opened[-1]
                items.append((begin, place))
                opened[-1] = place + 1, items
        return found

    def mutate(self) -> None:
        """Change one thing."""
        if not self.tokens:
            self.tokens = [" "]
        rng, tokens = self.rng, self.tokens
        place = rng.randrange(len(tokens))
        match rng.randrange(22):
            case 0 | 1 | 2 | 3:  # One name, number or sign for another of its kind.
                tokens[place] = tokens[rng.choice(self.words(tokens[place]))]
            case 4:
                tokens[place] = rng.choice(OPERATORS if kind_of(tokens[place]) == "sign" else LITERALS)
            case 5 | 6:
                places = [p for p, token in enumerate(tokens) if kind_of(token) in ("number", "string")]
                if places:
                    tokens[rng.choice(places)] = rng.choice(LITERALS)
            case 7 | 8:
                places = [p for p, t in enumerate(tokens) if t in ("int", "string", "float", "decimal", "date", "bool")]
                if places:
                    tokens[rng.choice(places)] = rng.choice(TYPES)
            case 9:
                tokens.insert(place, f" {rng.choice(WORDS)} ")
            case 10:
                lines = "".join(tokens).split("\n")
                line, other = rng.randrange(len(lines)), rng.randrange(len(lines))
                match rng.randrange(3):
                    case 0:
                        del lines[line]
                    case 1:
                        lines.insert(line, lines[other])
                    case _:
                        lines[line], lines[other] = lines[other], lines[line]
                self.tokens = TOKEN.findall("\n".join(lines))
            case 11 if rng.random() < 0.3:
                tokens.insert(place, rng.choice(STRANGE))
            case 12:
                names = [p for p, token in enumerate(tokens) if kind_of(token) == "number"]
                if names:
                    tokens[rng.choice(names)] = rng.choice(LITERALS)
            case _:
                self.in_a_group()

    def in_a_group(self) -> None:
        """Change the arguments of an atom, the literals of a body or the like."""
        rng, groups = self.rng, self.groups()
        if not groups:
            return
        group, other = rng.choice(groups), rng.choice(rng.choice(groups))
        parts = ["".join(self.tokens[begin:end]) for begin, end in group]
        place, another = rng.randrange(len(parts)), "".join(self.tokens[other[0] : other[1]])
        old = parts[place].strip()
        match rng.randrange(14):
            case 0:
                del parts[place]
            case 1:
                parts.insert(place, parts[rng.randrange(len(parts))])
            case 2:
                other_place = rng.randrange(len(parts))
                parts[place], parts[other_place] = parts[other_place], parts[place]
            case 3:
                parts[place] = another
            case 4:
                parts.insert(place, another)
            case 5 | 6:
                inner = re.sub(r"^@?\w+<(.*)>$", r"\1", old)
                function, *distinct = rng.choice(AGGREGATES).split()
                written = "2 by " + inner + rng.choice(["", " desc"]) if function == "first" else inner
                address = "@" if old.startswith("@") else ""
                made = f"{address}{function}<{' '.join([*distinct, written.removeprefix('@')])}>"
                parts[place] = inner if inner != old and rng.random() < 0.5 else made
            case 7:
                parts[place] = old.removeprefix("@") if old.startswith("@") else f"@{old}"
            case 8:
                parts[place] = rng.choice(["_", *LITERALS])
            case 9:
                parts[place] = f"{rng.choice(FUNCTIONS)}({old.removeprefix('@')})"
            case 10:
                one, more = old.removeprefix("@"), rng.choice([another.strip().removeprefix("@"), rng.choice(LITERALS)])
                address = "@" if old.startswith("@") else ""
                parts[place] = f"{address}{one} {rng.choice(OPERATORS)} {more}"
            case 11:
                parts[place] = rng.choice(["!", "-", "not ", "@", "^"]) + old
            case 12:
                parts[place] = f"({old} {rng.choice([';', ',', '|', '/'])} {another})"
            case _:
                parts[place] = rng.choice([f"[{old}]", f"({old})", f"{old}?", f"{old} = {another}"])
        begin, end = group[0][0], group[-1][1]
        self.tokens = TOKEN.findall(
            "".join(self.tokens[:begin]) + ", ".join(map(str.strip, parts)) + "".join(self.tokens[end:])
        )


def kind_of(token: str) -> str:
    """The kind of a token."""
    if token.isspace():
        return "space"
    if '"' in token:
        return "string"
    if token[0].isdigit():
        return "number"
    if re.fullmatch(r"[A-Z_$]\w*", token):
        return "variable"
    return "name" if token[0].isalpha() else "sign"


def mutated(text: str, rng: random.Random) -> str:
    """A program with one to four changes."""
    mutation = Mutation(text, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        mutation.mutate()
    return "".join(mutation.tokens)


class TooSlow(BaseException):
    """Raised where a program takes too long; no handler of errors takes it for one."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Let what takes longer fail; other processes do not count."""

    def fail(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except KeyboardInterrupt:  # DuckDB takes any signal for that of the keyboard.
        raise TooSlow(f"more than {seconds} s") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check_diagnostics(items: Sequence[Diagnostic], sources: Sequence[SourceFile], refused: bool) -> None:
    """Assert that diagnostics say something, about places in the files, and that they are few."""
    assert not refused or any(item.severity == "error" for item in items)
    by_name = {source.name: source for source in sources}
    for item in items:
        assert item.code in CODES and item.message
        for span in (item.span, *(note.span for note in item.notes if note.span is not None)):
            check_place(span, by_name[span.file])
        shown = render(item, by_name)
        assert max(map(len, shown.splitlines())) <= LONGEST_LINE, shown
    assert sum(item.severity == "error" for item in items) <= MOST_ERRORS


def check_place(span: Span, source: SourceFile) -> None:
    """Assert that a span lies in the program, or directly behind the end of a line."""
    assert 1 <= span.line <= len(source.lines), span
    line = source.lines[span.line - 1]
    assert span.length >= 1 and 1 <= span.column <= len(line) + 1, span
    assert span.column + span.length <= max(len(line) + 1, span.column + 1), span


def check(text: str, dialect: str, seed: int, heard: Counter[str], running: bool = True) -> None:
    """Compile a program in all ways; if it is to be ``running``, run it in memory beside the oracle if that takes it.
    Raise what goes wrong."""
    source = SourceFile(f"program{''.join(DIALECTS[dialect].suffixes[:1])}", text)
    rng = random.Random(seed)
    recursion = RECURSIONS[seed % 4 == 1]
    codes: set[str] = set()
    try:
        compilation = compile_program(source, recursion=recursion, dialect=dialect)
    except CompileError as error:
        check_diagnostics(error.diagnostics, error.sources, refused=True)
        codes = {item.code for item in error.diagnostics if item.severity == "error"}
        heard["refused"] += 1
        if codes == {"E0704"}:
            several(source, dialect, heard)
        return
    check_diagnostics(compilation.warnings, compilation.sources, refused=False)
    heard["compiled"] += 1
    if any(r.location is not None or r.at is not None for r in compilation.typed.relations):
        try:
            compile_nodes(source, recursion=recursion, dialect=dialect)
            heard["for nodes"] += 1
        except CompileError as error:
            check_diagnostics(error.diagnostics, error.sources, refused=True)
            heard["refused for nodes"] += 1
    if running and recursion == RECURSIONS[0]:  # Derivation sets may be as many as there are sets of facts.
        run(compilation, text, rng, dialect, heard)


def several(source: SourceFile, dialect: str, heard: Counter[str]) -> None:
    """Compile a program of processes."""
    try:
        compile_processes([source], dialect=dialect)
        heard["processes"] += 1
    except CompileError as error:
        check_diagnostics(error.diagnostics, error.sources, refused=True)
        heard["refused processes"] += 1


def run(compilation: Compilation, text: str, rng: random.Random, dialect: str, heard: Counter[str]) -> None:
    """Run a program on random rows, beside the oracle if it takes the program."""
    if compilation.typed.functions:
        return
    job = ImportedJob(compilation)
    job.limit_rounds(MOST_ROUNDS)
    try:
        try:
            program = parse(text) if dialect == "flintlog" else None
        except (ProgramError, ValueError, RecursionError, KeyError, IndexError, AssertionError):
            program = None
        if program is None:
            with contextlib.suppress(job.module.JobError):
                job.run({})
            heard["ran"] += 1
            return
        try:
            inputs = random_inputs(rng, program, 6)
            batches = random_batches(rng, program, inputs, 2, 4)
        except KeyError:  # A type without values.
            heard["no values"] += 1
            return
        checked = Checked(job, text, compilation)
        for batch in (insertions(inputs), *batches):
            try:
                problems = checked.apply(batch)
            except (RoundLimit, NotStratified) as error:
                heard[type(error).__name__] += 1
                return
            if any("rounds" in problem for problem in problems):
                heard["rounds"] += 1
                return
            assert not problems, "\n".join(problems)
        heard["agrees"] += 1
    finally:
        job.close()


def mutation_of(seed: int, dialect: str = "") -> tuple[str, str]:
    """The mutation of a seed, and its dialect."""
    rng = random.Random(seed)
    dialect = dialect or rng.choice(list(DIALECTS))
    return mutated(text_for(dialect, rng), rng), dialect


def main() -> int:
    """Search, and print what is found."""
    parser = argparse.ArgumentParser(description="look for programs that the compiler has no words for")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--dialect", choices=list(DIALECTS))
    arguments = parser.parse_args()
    heard: Counter[str] = Counter()
    failed, started = [], time.monotonic()
    seen: Counter[str] = Counter()
    for seed in range(arguments.first, arguments.last):
        text, dialect = mutation_of(seed, arguments.dialect or "")
        try:
            with limited(SECONDS):
                check(text, dialect, seed, heard)
        except (Exception, TooSlow):
            found = traceback.format_exc()
            where = "\n".join(found.splitlines()[-3:])[:200]
            failed.append(seed)
            seen[where] += 1
            if seen[where] <= 3:
                print(f"==== seed {seed} ({dialect})\n{text}\n---- {found[-3000:]}", flush=True)
        if seed % 500 == 0:
            print(f"up to {seed}: {time.monotonic() - started:.0f} s, {dict(heard)}, failed: {failed}", flush=True)
    print(f"failed: {failed or 'none'}; {dict(heard)}")
    for where, count in seen.most_common():
        print(count, where.replace("\n", " | "))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
