"""The example of a service: real requests to a real server, which is killed, and load, compared with the rules."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import flintlog
import pytest

from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import parse
from golden_tests.packaging.installations import ROOT

FOLDER = ROOT / "examples" / "permissions_service"
OWN = ("load", "service")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module that sends requests."""
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("load")
    for name in OWN:
        sys.modules.pop(name, None)


def allowed(example: Any, port: int) -> set[tuple[str, ...]]:
    """What the service says that people may do."""
    client = example.Client(port)
    return {(person, *row) for person in example.PEOPLE for row in client.get("/allowed", person=person)["allowed"]}


def test_kill(example: Any, tmp_path: Path) -> None:
    """Killed while batches arrive, the service has each that was acknowledged; those sent again change nothing."""
    policy = example.Policy(1)
    batches = [("first", policy.first()), *((f"batch/{number}", policy.change()) for number in range(40))]
    acknowledged: dict[str, Any] = {}
    enough = threading.Event()

    def send(port: int) -> None:
        client = example.Client(port)
        for name, changes in batches:
            try:
                acknowledged[name] = client.put(name, changes)
            except (OSError, HTTPException):
                return
            if len(acknowledged) == 15:
                enough.set()

    with example.Service(tmp_path) as service:
        sender = threading.Thread(target=send, args=(service.port,))
        sender.start()
        assert enough.wait(60)
        service.end(signal.SIGKILL)
        sender.join()
    assert 15 <= len(acknowledged) < len(batches)
    commits = {}
    with example.Service(tmp_path) as service:
        client = example.Client(service.port)
        for name, changes in batches:
            answer = client.put(name, changes)
            commits[answer["commit"]] = changes
            if name in acknowledged:
                assert answer == {"commit": acknowledged[name]["commit"], "granted": [], "revoked": []}
        assert [*commits] == [*range(2, len(batches) + 2)]
        facts = example.facts_of(commits)
        expected = evaluate(parse(example.PROGRAM.read_text(encoding="utf-8")), facts)["allowed"]
        assert allowed(example, service.port) == expected
        client.put(*batches[5])
        assert client.get("/changes", since=len(batches) + 1) == {"changes": [], "commit": len(batches) + 1}
    with flintlog.open(example.PROGRAM, tmp_path / "permissions.db") as view:
        assert not view.verify()
    assert "Traceback" not in service.log.read_text(encoding="utf-8")


NAME = 'O"Neil \\ / ü\n\0'

START = {
    "member": [["+", NAME, "night shift"]],
    "nested": [["+", "night shift", "staff"]],
    "placed": [["+", "ledger", "finance"]],
    "granted": [["+", "staff", "read", "finance"]],
}


def test_requests(example: Any, tmp_path: Path) -> None:
    """Checks, explanations and changes; a request that is refused says why, and changes nothing."""
    asked = {"person": NAME, "action": "read", "item": "ledger"}
    with example.Service(tmp_path) as service:
        client = example.Client(service.port)
        rows = [[NAME, "read", "finance"], [NAME, "read", "ledger"]]
        assert client.put("start", START) == {"commit": 2, "granted": rows, "revoked": []}
        assert client.get("/check", **asked) == {"allowed": True, "commit": 2}
        given = {
            proven["tuple"].partition("(")[0]
            for proven in client.get("/explain", **asked)["tuples"]
            if "given" in proven
        }
        assert given == START.keys()
        assert client.put("denial", {"denied": [["+", "night shift", "read", "ledger"]]})["revoked"] == rows[1:]
        assert client.get("/check", **asked) == {"allowed": False, "commit": 3}
        (attempt,) = client.get("/explain", **asked)["rules"]
        assert attempt["missing"] == "barred"
        assert client.get("/changes", since=2) == {"changes": [[3, "-", *rows[1]]], "commit": 3}
        for method, path, body, status, said in (
            ("PUT", "/batches/a", {"member": [["+", "ada"]]}, 400, "row 1: it must have an operation and 2 values"),
            ("PUT", "/batches/a", {"member": [["+", "ada", 7]]}, 400, "row 1, column grp: 7 is not a string"),
            ("PUT", "/batches/a", {"allowed": []}, 400, "allowed is not an input relation"),
            ("PUT", "/batches/a", {"member": 7}, 422, "valid list"),
            ("PUT", "/batches/", {}, 400, "cannot be the ID of a batch"),
            ("PUT", "/batches/init", {}, 400, "init is an ID that this state generated"),
            ("GET", "/changes?since=0", None, 400, "changes are kept from commit 1 on"),
            ("GET", "/check?person=ada", None, 422, "Field required"),
        ):
            found, answer = client.request(method, path, body)
            assert found == status and said in str(answer["detail"]), (path, found, answer)
        assert client.get("/check", **asked)["commit"] == 3
    refusal = asyncio.run(importlib.import_module("service").refuse(None, flintlog.Passing("locked")))
    assert refusal.status_code == 503
    assert "Traceback" not in service.log.read_text(encoding="utf-8")


def test_load(example: Any, tmp_path: Path) -> None:
    """All answers under load are those of their commits; how long they take is not tested."""
    with example.Service(tmp_path) as service:
        load = example.Load(service.port)
        load.run(checks=100, batches=20, seconds=2, connections=4)
        assert load.checks and len(load.batches) > 1
        load.verify()
    assert "Traceback" not in service.log.read_text(encoding="utf-8")
