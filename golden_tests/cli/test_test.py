"""``flintlog test``: what passes and fails, how differences are shown, and what is said about mistakes in files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from golden_tests.cli.test_commands import flintlog, written

REACH = """\
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
reachable(X, Y) :- link(X, Y).
reachable(X, Z) :- link(X, Y), reachable(Y, Z).
"""
PASSING = """\
[[test]]
name = "a chain"
given.link = [[1, 2], { dst = 3, src = 2 }]
expect.reachable = [[1, 3], [2, 3], [1, 2]]

[[test]]
name = "a link goes"
given.link = "links.csv"
expect.reachable = "reachable.json"

[[test.batch]]
delete.link = [[2, 3]]
expect.link = [[1, 2]]
changes.reachable = { delete = [[1, 3], [2, 3]] }

[[test.batch]]
insert.link = "links.csv"
delete.link = [[1, 2]]
refused = "both deleted and inserted"
expect.reachable = [[1, 2]]
changes.reachable = {}

[[test.batch]]
insert.link = [[5, 6]]
changes.reachable.insert = [[5, 6]]
changes.link.insert = [[5, 6]]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, in which commands run."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "reach.dl", REACH)
    written(tmp_path / "links.csv", "src,dst\n1,2\n2,3\n")
    written(tmp_path / "reachable.json", '{"src": 1, "dst": 2}\n{"src": 2, "dst": 3}\n{"src": 1, "dst": 3}\n')
    return tmp_path


def outcome(*arguments: str | Path) -> tuple[int, list[str]]:
    """The exit code of ``flintlog test``, and the lines that it prints."""
    result = flintlog("test", *arguments)
    return result.exit_code, result.output.splitlines()


def failing(folder: Path, text: str, program: str = "") -> list[str]:
    """What is printed about the only test of a file, which fails, without the headline and the totals."""
    if program:
        written(folder / "reach.dl", program)
    written(folder / "reach.test.toml", f'[[test]]\nname = "it"\n{text}\n')
    code, lines = outcome()
    assert (code, lines[0], lines[-1]) == (1, "FAILED  reach.test.toml: it", "1 test: 1 failed")
    return [line.removeprefix("  ") for line in lines[1:-1]]


def test_passing(folder: Path) -> None:
    """Facts and batches from arrays, tables and files; whole relations, net changes and refusals."""
    written(folder / "reach.test.toml", PASSING)
    assert outcome() == (
        0,
        ["passed  reach.test.toml: a chain", "passed  reach.test.toml: a link goes", "2 tests: 2 passed"],
    )


def test_files_and_folders(folder: Path) -> None:
    """Files are found below folders, but not in hidden ones, each once; paths in them are relative to them."""
    for name in ("rules", ".venv", "rules/.hidden"):
        written(folder / name / "reach.test.toml", PASSING.replace('"a chain"', '"a chain"\nprogram = "../reach.dl"'))
    written(folder / "rules" / "reach.dl", REACH)
    for name in ("links.csv", "reachable.json"):
        (folder / name).rename(folder / "rules" / name)
    file = Path("rules", "reach.test.toml")
    expected = [f"passed  {file}: a chain", f"passed  {file}: a link goes", "2 tests: 2 passed"]
    for arguments in ((), ("rules",), ("rules", file), (file,)):
        assert outcome(*arguments) == (0, expected)
    assert outcome("-k", "A CHAIN") == (0, [expected[0], "1 test: 1 passed"])
    assert outcome("-k", "nothing") == (2, ["error: no test has nothing in its file or name"])
    assert outcome("rules/.hidden/..", "-k", "rules")[0] == 0
    (folder / "empty").mkdir()
    assert outcome("empty") == (2, ["error: there is no file *.test.toml in empty or below"])
    assert outcome("missing")[0] == 2


def test_another_program(folder: Path) -> None:
    """The program of a file, or of a test."""
    (folder / "reach.dl").rename(folder / "other.dl")
    written(folder / "some.test.toml", f'program = "other.dl"\n{PASSING}')
    assert outcome()[0] == 0
    written(folder / "some.test.toml", PASSING)
    place = 'some.test.toml:1: test "a chain"'
    assert outcome("-k", "chain") == (
        2,
        [
            "ERROR   some.test.toml: a chain",
            f"  {place}: cannot read some.dl: No such file or directory",
            "1 test: 1 with a mistake in the test file",
        ],
    )


def test_differences(folder: Path) -> None:
    """Missing and unexpected rows stand together in the order of their values, under the names of the columns."""
    assert failing(folder, 'given.link = "links.csv"\nexpect.reachable = [[1, 2], [10, 20], [2, 4]]') == [
        "expect.reachable: 2 rows are missing (-), 2 rows are unexpected (+)",
        "     src  dst",
        "  +  1    3",
        "  +  2    3",
        "  -  2    4",
        "  -  10   20",
    ]
    batch = "[[test.batch]]\ndelete.link = [[2, 3]]\nchanges.reachable.insert = [[7, 7]]\nexpect.reachable = [[1, 2]]\n"
    assert failing(folder, f'given.link = "links.csv"\n{batch}') == [
        "batch 1, changes.reachable.insert: 1 row is missing (-)",
        "     src  dst",
        "  -  7    7",
        "batch 1, changes.reachable.delete: 2 rows are unexpected (+)",
        "     src  dst",
        "  +  1    3",
        "  +  2    3",
    ]
    many = failing(folder, f"given.link = {[[0, n] for n in range(1, 100)]}\nexpect.reachable = []")
    assert many[0] == "expect.reachable: 99 rows are unexpected (+)"
    assert (len(many), many[-1]) == (43, "  ... and 59 more")


def test_differences_of_every_type(folder: Path) -> None:
    """Values are written as they are given; a relation without columns has one row, or none."""
    columns = "f: float, d: decimal(4,2), s: string, b: bool, y: date, t: timestamp, l: list<list<int>>"
    program = f"input relation a({columns})\noutput relation o({columns})\noutput relation some\n"
    program += "o(F, D, S, B, Y, T, L) :- a(F, D, S, B, Y, T, L).\nsome :- a(F, D, S, B, Y, T, L).\n"
    row = '[0.1, 1.50, "x\\ny", true, 2026-01-01, 2026-01-01T10:00:00+02:00, [[1], []]]'
    assert failing(folder, f"given.a = [{row}]\nexpect.o = [{row}]\nexpect.some = []", program) == [
        "expect.some: 1 row is unexpected (+)",
        "",
        "  +",
    ]
    other = row.replace("1.50", '"1.51"')
    assert failing(folder, f"given.a = [{row}]\nexpect.o = [{other}]\nexpect.some = [[]]") == [
        "expect.o: 1 row is missing (-), 1 row is unexpected (+)",
        r"     f    d     s     b     y           t                    l",
        r"  +  0.1  1.50  x\ny  true  2026-01-01  2026-01-01 08:00:00  [[1], []]",
        r"  -  0.1  1.51  x\ny  true  2026-01-01  2026-01-01 08:00:00  [[1], []]",
    ]


def test_refusals(folder: Path) -> None:
    """A batch that is refused, or not refused, against expectation."""
    program = "input relation a(x: int)\noutput relation b(x: int)\nb(6 / X) :- a(X).\n"
    assert failing(folder, "given.a = [[0]]\nexpect.b = []", program)[0] == "given: refused"
    text = 'given.a = [[1]]\n[[test.batch]]\ninsert.a = [[2]]\nrefused = "by zero"\n'
    assert failing(folder, text) == ['batch 1: not refused; expected a message with "by zero"']
    refused = failing(folder, text.replace("[[2]]", "[[0]]").replace("by zero", "overflows"))
    assert refused[0] == 'batch 1: refused; expected a message with "overflows"'
    assert "division by zero" in " ".join(refused)


def test_programs_with_errors(folder: Path) -> None:
    """A test names all codes of errors that the compiler reports; warnings are no matter."""
    written(
        folder / "reach.dl",
        REACH + "input relation unused(x: int)\np(X) :- link(Y, Z).\nq(X) :- link(X, _), !link(Z, Z).\n",
    )
    written(folder / "reach.test.toml", '[[test]]\nname = "it"\nerror = ["E0402", "E0401"]\n')
    assert outcome()[0] == 0
    lines = failing(folder, 'error = "E0401"')
    assert lines[0] == "the program is refused; expected E0401"
    assert "  --> reach.dl:6:3" in lines
    assert failing(folder, "given.link = []\nexpect.reachable = []")[0] == "the program is refused"
    assert failing(folder, 'error = "E0401"', REACH) == ["the program has no error; expected E0401"]


def test_functions(folder: Path) -> None:
    """A file, or a test, names the file of the external functions."""
    program = "extern function half(x: int): int\ninput relation a(x: int)\noutput relation b(x: int)\n"
    written(folder / "reach.dl", program + "b(Y) :- a(X), Y = half(X).\n")
    written(folder / "functions.py", "def half(x):\n    return x // 2\n")
    test = '[[test]]\nname = "it"\ngiven.a = [[4]]\nexpect.b = [[2]]\n'
    for text in (f'functions = "functions.py"\n{test}', f'{test}functions = "functions.py"\n'):
        written(folder / "reach.test.toml", text)
        assert outcome()[0] == 0
    for text, message in (
        (test, 'reach.dl declares external functions; add functions = "FILE.py"'),
        (f'{test}functions = "none.py"\n', "none.py cannot be read"),
    ):
        written(folder / "reach.test.toml", text)
        code, lines = outcome()
        assert code == 2 and message in lines[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "reach.test.toml: there is no test; a test begins with a line [[test]]"),
        ("[[test]\n", "reach.test.toml is not TOML: "),
        ("x = 1\n", "reach.test.toml: there is no key x; the keys are program, functions, test"),
        ("[test]\n", "reach.test.toml: there is no test; a test begins with a line [[test]]"),
        ("\n[[test]]\n", "reach.test.toml:2: the test has no name"),
        ("[[test]]\nname = 1\n", "reach.test.toml:1: name must be a string"),
        ('[[test]]\nname = "it"\nexpected.a = 1\n', "IT: there is no key expected; the keys are name, program, "),
        ('[[test]]\nname = "it"\n', "IT: the test expects nothing; give expect, changes, refused or error"),
        ('[[test]]\nname = "it"\nerror = 401\n', "IT: error must be a code or a list of codes"),
        (
            '[[test]]\nname = "it"\nerror = "E0401"\ngiven.a = []\n',
            "IT: a program with an error does not run; leave out given",
        ),
        ('[[test]]\nname = "it"\ngiven = []\n', "IT: write given for each relation: given.RELATION = ..."),
        ('[[test]]\nname = "it"\nbatch = 1\n', "IT: a batch must begin with a line [[test.batch]]"),
        ('[[test]]\nname = "it"\n[[test.batch]]\ngiven.a = []\n', "IT, batch 1: there is no key given; the keys are "),
        ('[[test]]\nname = "it"\n[[test.batch]]\nchanges.a = []\n', "IT, batch 1, changes.a must be a table, { "),
        ('[[test]]\nname = "it"\nerror = "E1"\n' * 2, 'reach.test.toml:4: there are two tests "it"'),
    ],
)  # fmt: skip
def test_mistakes_in_files(text: str, message: str, folder: Path) -> None:
    """File, line and test are named, and other files are run."""
    written(folder / "reach.test.toml", text)
    written(folder / "right.test.toml", f'program = "reach.dl"\n{PASSING}')
    code, lines = outcome()
    (error,) = (line for line in lines if line.startswith("error: "))
    assert error.startswith("error: " + message.replace("IT", 'reach.test.toml:1: test "it"'))
    assert (code, lines[-1]) == (2, "2 tests: 2 passed, 1 with a mistake in the test file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('given.link = [[1, "a"]]', 'given.link, row 1, column dst: "a" is text in quotes'),
        ("given.link = [[1]]", "given.link, row 1: 1 values instead of 2 (src, dst)"),
        ("given.link = [1]", "given.link, row 1: 1 is not a row, which is a tuple or a dict"),
        ("given.link = [{ src = 1, to = 2 }]", 'given.link, row 1: there is no column "to"; link has src, dst'),
        ("given.link = [[1, 10:00:00]]", "given.link, row 1, column dst: 10:00:00 is not an int"),
        ("given.links = []", "given.links: there is no relation links; the input relations of reach.dl: link"),
        ("given.reachable = []", "given.reachable: reachable is not an input relation; reach.dl has these: link"),
        ("given.a.b = []", "given.a: there is no relation a; the input relations of reach.dl: link"),
        (
            "given.link.b = []",
            "given.link: rows must be an array, or the path of a file in quotes; put a name with dots in quotes",
        ),
        ("given.link = 1", "given.link: rows must be an array, or the path of a file in quotes"),
        ('given.link = "no.csv"', "given.link: cannot read no.csv: No such file or directory"),
        ('given.link = "links.txt"', "given.link: links.txt does not have the suffix of a known format (.csv, .json, "),
        ('given.link = "bad.csv"', "given.link: bad.csv, row 2, column dst: null"),
        ('given.link = "more.csv"', "given.link: more.csv: column w is not used"),
        ("expect.reached = []", "expect: there is no relation reached; there are link, reachable"),
        ("expect.reachable = [[1, 2.5]]", "expect.reachable, row 1, column dst: 2.5 is not an int"),
        ("[[test.batch]]\ndelete.link = [[1, true]]", "batch 1, delete.link, row 1, column dst: True is not an int"),
        (
            "[[test.batch]]\nchanges.reachable.insert = [[1]]",
            "batch 1, changes.reachable.insert, row 1: 1 values instead of 2 (src, dst)",
        ),
    ],
)
def test_mistakes_in_rows(text: str, message: str, folder: Path) -> None:
    """Relation, row and column are named, with the place of the test."""
    written(folder / "bad.csv", "src,dst\n1,2\n1,\n")
    written(folder / "more.csv", "src,dst,w\n1,2,3\n")
    otherwise = "" if "expect" in text or "changes" in text else "expect.reachable = []\n"
    written(
        folder / "reach.test.toml",
        f'[[test]]\nname = "it"\n{text if not otherwise else ""}\n{otherwise}{text if otherwise else ""}\n',
    )
    code, lines = outcome()
    assert (code, lines[0]) == (2, "ERROR   reach.test.toml: it")
    assert lines[1].startswith(f'  reach.test.toml:1: test "it", {message}')


def test_nulls(folder: Path) -> None:
    """A table that leaves out an optional column has a null, in facts, in batches and in what is expected; no other
    column can be left out."""
    written(
        folder / "mail.dl",
        "input relation mail(id: int, email: string?)\noutput relation silent(id: int, email: string?)\n"
        "silent(I, E) :- mail(I, E), E = null.\nsilent(I, E) :- mail(I, E), I = 3.\n",
    )
    facts = 'given.mail = [{ id = 1 }, [2, "b"], { id = 3, email = "c" }]'
    batch = "[[test.batch]]\ndelete.mail = [{ id = 1 }]\ninsert.mail = [{ id = 4 }]\n"
    changes = "changes.silent = { insert = [{ id = 4 }], delete = [{ id = 1 }] }\n"
    for case, ending in (
        (f'{facts}\nexpect.silent = [{{ id = 1 }}, [3, "c"]]\n{batch}{changes}', ["1 test: 1 passed"]),
        (f'{facts}\nexpect.silent = [[3, "c"]]', ["+  1   null"]),
        ('expect.silent = [{ email = "c" }]', ['test "it", expect.silent, row 1, column id: missing']),
    ):
        written(folder / "mail.test.toml", f'[[test]]\nname = "it"\n{case}\n')
        lines = outcome("mail.test.toml")[1]
        assert all(any(wanted in line for line in lines) for wanted in ending), lines


def test_junit(folder: Path) -> None:
    """Suites are files, with the numbers that continuous integration reads, and what a difference looks like."""
    failing = '[[test]]\nname = "fails\\u0007 & <so>"\nexpect.reachable = [[1, 2]]\n'
    wrong = '[[test]]\nname = "wrong"\nexpect.reachable = [[1]]\n'
    written(folder / "sub" / "reach.test.toml", f'program = "../reach.dl"\n{failing}{wrong}')
    written(folder / "reach.test.toml", PASSING)
    written(folder / "zero.test.toml", "")
    assert outcome("--junit", folder / "out" / "junit.xml")[0] == 2
    root = ElementTree.parse(folder / "out" / "junit.xml").getroot()
    numbers = ("tests", "failures", "errors")
    assert root.tag == "testsuites" and [root.get(key) for key in numbers] == ["5", "1", "2"]
    assert [(suite.get("name"), *(suite.get(key) for key in numbers)) for suite in root] == [
        ("reach.test.toml", "2", "0", "0"),
        ("sub/reach.test.toml", "2", "1", "1"),
        ("zero.test.toml", "1", "0", "1"),
    ]
    passed, failed, error, unread = (root[0][0], *root[1], root[2][0])
    assert [passed.get(key) for key in ("classname", "name", "file")] == ["reach.test", "a chain", "reach.test.toml"]
    assert len(passed) == 0 and float(passed.get("time", "")) >= 0
    assert failed.get("classname") == "sub.reach.test" and failed.get("name") == "fails\\u0007 & <so>"
    assert [(child.tag, child.get("message")) for child in (*failed, *error, *unread)] == [
        ("failure", "expect.reachable: 1 row is missing (-)"),
        (
            "error",
            'sub/reach.test.toml:5: test "wrong", expect.reachable, row 1: 1 values instead of 2 (src, dst)',
        ),
        ("error", "zero.test.toml: there is no test; a test begins with a line [[test]]"),
    ]
    assert (failed[0].text or "").splitlines()[1:] == ["     src  dst", "  -  1    2"]
    assert "cannot write links.csv/x.xml" in outcome("--junit", Path("links.csv", "x.xml"))[1][-1]
