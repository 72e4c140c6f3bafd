"""The script of docs/feeds.md that reads a database by JDBC."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.documentation.pages import ROOT, pieces
from golden_tests.harness import VERSION, load_script
from golden_tests.integrations.environments import WANTED
from golden_tests.maven import jars


@WANTED
def test_the_recipe(tmp_path: Path) -> None:
    """Each run applies what the database has changed, with names and values as they are there."""
    page = {piece.what: piece.text for piece in pieces((ROOT / "docs" / "feeds.md").read_text(encoding="utf-8"))}
    plan = compile_program(SourceFile("net.dl", page["net.dl"])).plan
    script = emit_script(plan, VERSION, format_code=False, parts=("table",))
    (tmp_path / "net.py").write_text(script, "utf-8")
    (tmp_path / "nightly.py").write_text(page["nightly.py"], "utf-8")
    (driver,) = jars(Path(__file__).parent / "jdbc" / "pom.xml", "jdbc").glob("sqlite-jdbc-*.jar")
    shutil.copyfile(driver, tmp_path / "sqlite-jdbc.jar")
    job = load_script(script)
    with sqlite3.connect(tmp_path / "network.db") as database:
        database.execute("CREATE TABLE cable (source INTEGER, target INTEGER, active INTEGER)")
        database.execute("INSERT INTO cable VALUES (1, 2, 1), (2, 3, 1), (3, 4, 0)")

    def links_and_paths() -> tuple[list[tuple[int, ...]], int]:
        done = subprocess.run([sys.executable, "nightly.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = job.relation(None, str(tmp_path / "state"), "link").to_pylist()
        paths = job.relation(None, str(tmp_path / "state"), "reachable").num_rows
        return sorted(tuple(row.values()) for row in rows), paths

    assert links_and_paths() == ([(1, 2), (2, 3)], 3)
    with sqlite3.connect(tmp_path / "network.db") as database:
        database.execute("UPDATE cable SET active = 1 WHERE source = 3")
        database.execute("DELETE FROM cable WHERE source = 1")
    assert links_and_paths() == ([(2, 3), (3, 4)], 3)
    commits = job.status(str(tmp_path / "state"))["commit"]
    assert links_and_paths() == ([(2, 3), (3, 4)], 3)
    assert job.status(str(tmp_path / "state"))["commit"] == commits
