"""Tables of grammars that are kept between commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flintlog.compiler.frontend.statement_grammar as grammars
import pytest
from lark import Lark

from golden_tests.nightly import AT_NIGHT

GRAMMAR = Path(grammars.__file__).with_name("flintlog.lark")
TEXT = "reach(X, Y) :- link(X, Z), reach(Z, Y), X != Y.\n"


def made() -> Lark:
    """The parser, made again."""
    parser: Lark = grammars.parser_of.__wrapped__(GRAMMAR, "statement", "junk")
    return parser


@AT_NIGHT
def test_kept_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser is the same with and without them, whatever their file contains."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    tree = made().parse(TEXT, start="statement")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert made().parse(TEXT, start="statement") == tree
    (file,) = (tmp_path / "cache" / "flintlog").iterdir()
    kept = file.read_bytes()
    for content in (kept, b"", b"nothing", kept[:32], kept[:1000], kept[:-1], kept.replace(b"a", b"b", 1)):
        file.write_bytes(content)
        assert made().parse(TEXT, start="statement") == tree
        assert made().parse(TEXT, start="statement") == tree
        assert file.stat().st_size > len(kept) / 2 and [*file.parent.iterdir()] == [file]
    file.unlink()
    file.mkdir()
    assert made().parse(TEXT, start="statement") == tree


def test_tables_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not loaded, since that could execute anything."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made()
    loaded: list[Any] = []
    monkeypatch.setattr(Lark, "load", lambda file: loaded.append(file))
    made()
    assert len(loaded) == 1
    monkeypatch.setattr(grammars.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert made().parse(TEXT, start="statement") and len(loaded) == 1
