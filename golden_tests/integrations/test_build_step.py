"""The files of ``examples/build_step`` do in their tools what they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from golden_tests.integrations.environments import ROOT, WANTED, environment

OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
EXAMPLE = ROOT / "examples" / "build_step"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example's folder with what it is built of, in a repository."""
    for name in ("access", "blast_radius", "build_step"):
        shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "The example")
    return tmp_path / "build_step"


def git(folder: Path, *arguments: str) -> None:
    """Run git."""
    run(folder, "git", *arguments)


def run(
    folder: Path, *command: str | Path, expect: int = 0, **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a command with this environment's ``flintlog``."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    given = {**os.environ, "PATH": path, **variables}
    # What make tells the tests' own commands is not for these.
    known = {name: value for name, value in given.items() if value is not None and name not in OF_MAKE}
    done = subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


@WANTED
def test_make(project: Path) -> None:
    """Builds what is missing and what has changed, and nothing else."""
    first = run(project, "make")
    assert "2 files, 2 written" in first.stderr
    assert run(project, "make").stdout == "make: Nothing to be done for 'jobs'.\n"
    program = project.parent / "access" / "groups.dl"
    program.write_text(program.read_text(encoding="utf-8") + "// more\n", encoding="utf-8")
    later = (project / "jobs" / "groups.py").stat().st_mtime + 5
    os.utime(program, (later, later))
    assert "2 files, 1 written" in run(project, "make").stderr
    run(project, "make", "check")
    (project / "jobs" / "packages.py").unlink()
    assert "jobs/packages.py is missing" in run(project, "make", "check", expect=2).stderr


@WANTED
def test_github_steps(project: Path) -> None:
    """The commands of the workflow's steps."""
    workflow = yaml.safe_load((EXAMPLE / "github-workflow.yml").read_text(encoding="utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["jobs"]["steps"] if "run" in step]
    install, check, build = commands
    assert install == "pip install wheels/flintlog-*.whl"
    run(project, "bash", "-e", "-c", check)
    assert json.loads((project / "flintlog.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert "is missing" in run(project, "bash", "-e", "-c", build, expect=1).stderr
    run(project, "flintlog", "build")
    run(project, "bash", "-e", "-c", build)


@WANTED
def test_github_schema() -> None:
    """The workflow and the hooks are what their schemas say."""
    tools = environment("check-jsonschema>=0.39")
    check = tools / "check-jsonschema"
    run(ROOT, check, "--builtin-schema", "vendor.github-workflows", EXAMPLE / "github-workflow.yml")


@WANTED
def test_pre_commit(project: Path) -> None:
    """The hooks pass and fail as their commands do, in an environment that pre-commit makes."""
    tools = environment("pre-commit>=4")
    cache = str(project / "cache")
    run(ROOT, tools / "pre-commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    # The hooks of what is here, whether it was committed or not.
    hooks = project / "hooks"
    names = run(ROOT, "git", "ls-files", "-co", "--exclude-standard").stdout.splitlines()
    for name in names:
        if not name.startswith(("golden_tests/", "benchmarks/")) and (ROOT / name).is_file():
            (hooks / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, hooks / name)
    git(hooks, "init", "-q")
    git(hooks, "add", "-A")
    git(hooks, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "Hooks")

    shutil.move(project / "flintlog.toml", project.parent / "flintlog.toml")
    table = project.parent / "flintlog.toml"
    table.write_text('programs = ["access/*.dl"]\n', encoding="utf-8")
    (project.parent / ".gitignore").write_text("build_step/\n", encoding="utf-8")

    def tried(hook: str, expect: int) -> str:
        git(project.parent, "add", "-A")
        command = (tools / "pre-commit", "try-repo", hooks, hook, "--all-files")
        return run(project.parent, *command, expect=expect, PRE_COMMIT_HOME=cache, PYTHONPATH=None).stdout

    assert "jobs/groups.py is missing" in tried("flintlog-build", 1)
    run(project.parent, "flintlog", "build")
    assert "Passed" in tried("flintlog-build", 0)
    assert "Passed" in tried("flintlog-check", 0)
    (project.parent / "access" / "wrong.dl").write_text("p(X, Y) :- q(X).\n", encoding="utf-8")
    assert "wrong.dl:1" in tried("flintlog-check", 1)


DAG = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
(dag,) = bag.dags.values()
tasks = {
    task.task_id: {
        "after": sorted(task.upstream_task_ids),
        "retries": task.retries,
        "application": getattr(task, "application", None) or getattr(task, "_application", None),
        "arguments": getattr(task, "application_args", None) or getattr(task, "_application_args", None),
    }
    for task in dag.tasks
}
print("FOUND" + json.dumps({"id": dag.dag_id, "active": dag.max_active_runs, "tasks": tasks}))
"""


@WANTED
def test_airflow(tmp_path: Path, project: Path) -> None:
    """Airflow reads the DAG; what its tasks are told is what the job understands."""
    tools = environment("apache-airflow>=3.1,<4", "apache-airflow-providers-apache-spark>=5")
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(EXAMPLE / "airflow_dag.py", dags)
    home = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "PYTHONPATH": None,
    }
    run(tmp_path, tools / "airflow", "db", "migrate", **home)
    done = run(tmp_path, tools / "python", "-c", DAG, dags, **home)
    found = json.loads(done.stdout.partition("FOUND")[2])
    assert (found["id"], found["active"]) == ("access", 1)
    tasks = found["tasks"]
    assert {name: task["after"] for name, task in tasks.items()} == {
        "apply": [],
        "monday": ["apply"],
        "verify": ["monday"],
    }
    assert all(task["retries"] == 3 for task in tasks.values())
    run(project, "flintlog", "build")
    for name in ("apply", "verify"):
        assert Path(tasks[name]["application"]).name == "groups.py"
        understood(project, tasks[name]["arguments"])


@WANTED
def test_databricks(project: Path) -> None:
    """The job of the bundle is what Databricks' own classes read; the file is there after a build."""
    tools = environment("databricks-bundles>=1", "pyyaml>=6")
    read = (
        "import json, sys, yaml\nfrom databricks.bundles.jobs import Job\n"
        "bundle = yaml.safe_load(open(sys.argv[1]))\n"
        "print(json.dumps([Job.from_dict(job).as_dict() for job in bundle['resources']['jobs'].values()]))\n"
    )
    (job,) = json.loads(run(project, tools / "python", "-c", read, project / "databricks.yml").stdout)
    written: Mapping[str, Any] = yaml.safe_load((project / "databricks.yml").read_text(encoding="utf-8"))
    assert job == written["resources"]["jobs"]["access"]
    run(project, "flintlog", "build")
    (task,) = job["tasks"]
    assert (project / task["spark_python_task"]["python_file"]).is_file()
    understood(project, task["spark_python_task"]["parameters"])


def understood(project: Path, arguments: list[str]) -> None:
    """The job takes a command line: it gets as far as looking for the state."""
    nowhere = [str(project / "nowhere") if "/" in argument else argument for argument in arguments]
    done = run(project, sys.executable, project / "jobs" / "groups.py", *nowhere, expect=1)
    assert "nowhere" in done.stderr
