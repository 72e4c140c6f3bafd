"""Derivations across the states of all processes of a program, for ``explain`` with ``--root``."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...database.state import open_file_state
from ...explain.proofs import MOST_PROOF_TUPLES, report_explanation
from ...job.shared_options import Parser, positive
from ...kernel.errors import JobError, reason
from ...kernel.model import LIFE
from ...kernel.values import value_text, visible
from ...row_kernel.model import RowProgram
from ...store.extensions import supply
from .channels import Process
from .nodes import Nodes
from .process_commands import parse_row
from .state import STATE_FILE
from .status import read_status
from .tracing import Tracer, answer

MOST_ROUNDS_OF_ONE, MOST_ROUNDS_BEYOND = 10_000, 200
"""At most this many rounds are computed by a process at once: in general, and where tuples count that are not
stored."""

HeldAt = tuple[str, str, tuple[str, ...], bool]
"""A tuple at a process: process, table, values, and whether it was found from the base facts of proofs."""

Ask = Callable[..., Any]
"""A function that asks a process a question of ``tracing``."""


class Askable(Protocol):
    """The processes to which questions can be put."""

    names: list[str]
    missing: dict[str, str]

    def ask(self, process: str) -> Ask | None:
        """Return the function that asks a process; None if its state is not here."""


class SpanningDerivation:
    """A derivation across processes."""

    def __init__(self, world: Askable, limit: int) -> None:
        """Print at most ``limit`` tuples."""
        self.world, self.limit = world, limit
        self.ids: set[str] = set()
        self.clock = 0
        self.waiting: dict[str, list[tuple[str, list[str]]]] = {}
        self.active: dict[str, None] = {}
        #: By tuple of a recursion, that of the process which was first to send it; None if this process is missing.
        self.delivered: dict[HeldAt, HeldAt | None] = {}
        self.holders: dict[HeldAt, list[str]] = {}
        self.steps: dict[HeldAt, dict[str, Any]] = {}

    def tuples(self, root: HeldAt) -> list[dict[str, Any]]:
        """Return the tuples of a derivation in breadth-first order, each with the IDs of its premises."""
        numbers: dict[tuple[str, str], int] = {}
        shown_tuples: list[dict[str, Any]] = []
        first = self.resolved(root)
        waiting = [first]
        numbers[self.shown_as(first)] = 0
        for said in waiting:
            node = {name: value for name, value in said["node"].items() if name != "shown"}
            because = []
            for key in said["premises"]:
                premise = self.resolved(key)
                name = self.shown_as(premise)
                if name not in numbers:
                    if len(numbers) >= self.limit:
                        node["cut"] = True
                        continue
                    numbers[name] = len(numbers)
                    waiting.append(premise)
                if numbers[name] not in because:
                    because.append(numbers[name])
            shown_tuples.append({"id": len(shown_tuples), **node, "because": because})
        return shown_tuples

    def shown_as(self, said: Mapping[str, Any]) -> tuple[str, str]:
        """Return the process and the text of a tuple, which identify it."""
        return said["node"]["process"], said["node"]["tuple"]

    def resolved(self, key: HeldAt) -> dict[str, Any]:
        """Return the node of a tuple as it is printed, and its premises. Premises of hidden relations are replaced by
        their own premises, and a tuple that was sent is shown with the rule that derived it at its sender."""
        shown: dict[str, Any] | None = None
        while True:
            process = key[0]
            said = self.step(key)
            if said["node"]["shown"] or shown is None:
                shown = {**said["node"], "process": process}
            if "passed" not in said:
                break
            key = said["passed"]
        rule = {name: said["node"][name] for name in KEPT if name in said["node"]}
        node = {**{name: value for name, value in shown.items() if name not in KEPT}, **rule}
        if "rule" in rule and process != node["process"]:
            node["computed"] = process
        premises: list[HeldAt] = []
        # One derivation joins the parts of a tuple with several aggregates: count the derivations of the largest.
        is_joined = node.get("derivations", 1) == 1
        for one in said.get("premises", ()):
            premise = self.resolved(one)
            inner = premise["node"]
            if inner["shown"] or not OPEN.isdisjoint(inner):
                premises.append(one)
                continue
            premises += premise["premises"]
            if is_joined and inner.get("derivations", 0) > node.get("derivations", 0):
                node |= {name: inner[name] for name in ("derivations", "listed")}
            if inner.get("absent"):
                node["absent"] = list(dict.fromkeys([*node.get("absent", ()), *inner["absent"]]))
        return {"node": node, "premises": list(dict.fromkeys(premises))}

    def step(self, key: HeldAt) -> dict[str, Any]:
        """Return one step of a derivation."""
        if key not in self.steps:
            self.steps[key] = self.new_step(key)
        return self.steps[key]

    def new_step(self, key: HeldAt) -> dict[str, Any]:
        """Ask for one step of a derivation."""
        process, table, texts, traced = key
        ask = self.world.ask(process)
        assert ask is not None, "only processes that are here are asked"
        said = ask("step", table, list(texts), traced)
        node = said["node"]
        if "ids" in said:
            passed = self.key(process, said["passed"])
            missing = self.prove(passed, said["ids"])
            if missing is not None:
                return {"node": {**node, "unfinished": missing}}
            return {"node": node, "passed": passed}
        if "arrived" in said:
            return self.arrived(key, node, said["arrived"])
        if said.get("gone"):
            return {"node": {**node, "gone": "is no longer there: the processes are not quiet"}}
        if "passed" in said:
            return {"node": node, "passed": self.key(process, said["passed"])}
        return {"node": node, "premises": [self.key(process, one) for one in said["premises"]]}

    def key(self, process: str, known: Mapping[str, Any]) -> HeldAt:
        """Return the key of a tuple."""
        return process, known["table"], tuple(known["values"]), known["traced"]

    def arrived(self, key: HeldAt, node: dict[str, Any], senders: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the step of a tuple that another process has sent."""
        _, _, texts, traced = key
        if traced and (source := self.delivered.get(key)) is not None:
            return {"node": node, "passed": source}
        away = self.holders.get(key, [])
        if not traced:
            for sender, output in senders:
                ask = self.world.ask(sender)
                sent_tuple = ask("sent", output, list(texts)) if ask else None
                if sent_tuple is not None:
                    return {"node": node, "passed": self.key(sender, sent_tuple)}
                away += [] if ask else [sender]
        if not away:
            return {"node": {**node, "gone": "is held by no process any more: they are not quiet"}}
        return {"node": {**node, "held": f"held by {' or '.join(away)}, whose state is not here"}}

    # Recursions across processes

    def prove(self, key: HeldAt, ids: Sequence[str]) -> list[str] | None:
        """Derive a tuple from the base facts in its proof; return None on success, otherwise what is missing."""
        process, table, texts, _ = key
        ask = self.world.ask(process)
        assert ask is not None, "only processes that are here are asked"
        if ask("is_found", table, list(texts)):
            return None
        self.ids |= set(ids)
        lives = ask("lives")
        owners = dict.fromkeys([process, *(lives[one[:LIFE]] for one in sorted(ids) if one[:LIFE] in lives)])
        self.active |= owners
        for way in ("owners", "all", "held", "beyond"):
            if way == "all":
                self.active |= dict.fromkeys([*self.world.names, *lives.values()])
            if way == "held" and not self.assume():
                continue
            self.spread(way != "beyond")
            if ask("is_found", table, list(texts)):
                return None
        gone = sum(one[:LIFE] not in lives for one in ids)
        away = [f"{name}, whose state is not here" for name in owners if self.world.ask(name) is None]
        return [f"base facts of {name}" for name in [*away, *["a process that is gone"] * bool(gone)]] or [
            "what the proof needs is no longer there: the processes are not quiet"
        ]

    def spread(self, best: bool) -> None:
        """Let all active processes derive tuples from the base facts until none sends a new tuple."""
        due = dict(self.active)
        turns = 0
        while due and (best or turns < MOST_ROUNDS_BEYOND):
            name = next(iter(due))
            due.pop(name)
            turns += 1
            ask = self.world.ask(name)
            if ask is None:
                continue
            self.active[name] = None
            most = MOST_ROUNDS_OF_ONE if best else MOST_ROUNDS_BEYOND
            arrived = self.waiting.pop(name, [])
            said = ask("advance", sorted(self.ids), [list(one) for one in arrived], self.clock, best, most)
            self.clock = said["clock"]
            for reader, arriving, texts, named in said["sent"]:
                if self.deliver(reader, arriving, texts, self.key(name, named)):
                    self.waiting.setdefault(reader, []).append((arriving, texts))
                    due[reader] = None

    def deliver(self, reader: str, name: str, texts: Sequence[str], source: HeldAt | None) -> bool:
        """Record the first process to send a tuple; return whether it is this one."""
        ask = self.world.ask(reader)
        if ask is None:
            return False
        key = (reader, ask("input_table", name), tuple(texts), True)
        return self.delivered.setdefault(key, source) is source

    def assume(self) -> bool:
        """Accept the tuples with proofs that only missing processes can have sent; return whether there are any."""
        any_assumed = False
        for reader in [*self.active]:
            ask = self.world.ask(reader)
            for name, texts, senders in ask("received", sorted(self.ids)) if ask else ():
                asked = [(sender, self.world.ask(sender), output) for sender, output in senders]
                away = [sender for sender, there, _ in asked if there is None]
                here = any(there is not None and there("sent", output, texts) is not None for _, there, output in asked)
                assert ask is not None
                key = (reader, ask("input_table", name), tuple(texts), True)
                if away and not here and key not in self.delivered:
                    self.delivered[key], self.holders[key] = None, away
                    self.waiting.setdefault(reader, []).append((name, texts))
                    any_assumed = True
        return any_assumed


OPEN = {"gone", "held", "unfinished"}
"""The members of a node whose derivation is unknown."""

KEPT = ("absent", "also", "derivations", "given", "gone", "held", "listed", "rule", "source", "text", "unfinished")
"""The members of a node that come from the step that derived its tuple."""


class OpenStates:
    """The states of the processes of a program, opened when they are asked. Nodes run the same program; the scripts of
    other processes answer for theirs, with the same file of functions."""

    def __init__(
        self,
        program: RowProgram,
        processes: Mapping[str, Process],
        root: Path,
        homes: Mapping[str, str],
        scripts: Mapping[str, Path],
        functions: str | None = None,
    ) -> None:
        """Open nothing yet. ``homes`` says where states are if the status does not; ``scripts`` are those of other
        processes; ``functions`` is the file with the external functions of all of them."""
        self.program, self.processes, self.root = program, processes, root
        self.homes, self.scripts = homes, scripts
        self.functions = functions
        self.supplied = supply(program, functions if program.functions else None)
        self.names = [*processes]
        self.missing: dict[str, str] = {}
        self.opened: dict[str, Ask] = {}
        self.resources = contextlib.ExitStack()

    def home(self, process: str) -> Path:
        """Return the home of a process."""
        told = self.homes.get(process) or read_status(self.root, process).get("home")
        return Path(told) if isinstance(told, str) else self.root / "homes" / process

    def ask(self, process: str) -> Ask | None:
        """Return the function that asks a process; None if its state is not here."""
        if process not in self.opened and process not in self.missing:
            try:
                ask = self.local(process) if process in self.processes else self.foreign(process)
                self.opened[process] = ask
            except (JobError, OSError) as error:
                self.missing[process] = str(error) if isinstance(error, JobError) else reason(error)
        return self.opened.get(process)

    def local(self, process: str) -> Ask:
        """Open the state of a process of this script."""
        state = self.state(process)
        database = self.resources.enter_context(open_file_state(self.program, str(state), self.supplied))
        self.resources.enter_context(database.reading())
        tracer = Tracer(database, self.processes[process])
        return lambda *question: answer(tracer, question)

    def state(self, process: str) -> Path:
        """Return the file of the state of a process; raise JobError if there is none."""
        home = self.home(process)
        if not (home / STATE_FILE).is_file():
            raise JobError(f"{process} has no state in {home}")
        return home / STATE_FILE

    def foreign(self, process: str) -> Ask:
        """Start the script of another process, which answers for it."""
        script = self.scripts.get(process)
        if script is None or not script.is_file():
            raise JobError(f"the script of {process} is not beside this one")
        home = self.state(process).parent
        command = [sys.executable, str(script), "explain", "--root", str(self.root), "--home", f"{process}={home}"]
        command += ["--functions", self.functions] if self.functions else []
        running = subprocess.Popen([*command, "--answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.resources.enter_context(running)
        self.resources.callback(lambda: running.stdin and running.stdin.close())

        def ask(*question: Any) -> Any:
            assert running.stdin and running.stdout
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps(question), file=running.stdin, flush=True)
            line = running.stdout.readline()
            if not line:
                raise JobError(f"the script of {process}, {script}, does not answer")
            reply = json.loads(line)
            if "error" in reply:
                raise JobError(f"{process}: {reply['error']}")
            return reply["answer"]

        ask("lives")
        return ask


def explained_across(states: OpenStates, program: RowProgram, asked: str, limit: int) -> dict[str, Any]:
    """Return the result of ``explain`` for a tuple, from all processes whose states can be read."""
    with states.resources:
        return explained(states, program, asked, limit)


def explained(states: OpenStates, program: RowProgram, asked: str, limit: int) -> dict[str, Any]:
    """Return the derivation of a tuple from the first process that has it; if none has it, how far the rules get at the
    process that would hold it."""
    parse_row(program, asked)
    if any(relation.kind == "entries" for relation in program.relations):
        raise JobError(
            "--root cannot follow derivation sets from process to process; `explain` without it, or `show REL "
            "--entries --state HOME/state.db`, prints the facts that a tuple of a recursion follows from"
        )
    absent: list[dict[str, Any]] = []
    for process in [*states.names]:
        ask = states.ask(process)
        if ask is None:
            continue
        asked_tuple = ask("asked", asked)
        if asked_tuple["present"]:
            key = (process, asked_tuple["table"], tuple(asked_tuple["values"]), False)
            derivation = SpanningDerivation(states, limit)
            tuples = derivation.tuples(key)
            text = tuples[0]["tuple"]
            return {
                "program": program.name,
                "tuple": text,
                "present": True,
                "tuples": tuples,
                "missing": states.missing,
            }
        absent.append({**ask("absent", asked), "process": process})
    if not absent:
        raise JobError("; ".join(states.missing.values()))
    home = home_of(states, program, asked)
    if home in states.missing:
        raise JobError(f"{absent[0]['tuple']} would be at {home}, whose state is not here: {states.missing[home]}")
    said = next((one for one in absent if one["process"] == home), absent[0])
    return {**said, "missing": states.missing}


def home_of(states: OpenStates, program: RowProgram, asked: str) -> str:
    """Return the node that would hold a tuple; empty if the relation has no location."""
    relation, values = parse_row(program, asked)
    partition = next(iter(states.processes.values())).partition
    place = next((i for i, column in enumerate(relation.columns) if column.sql == relation.location), None)
    if partition is None or place is None:
        return ""
    return [*states.processes][partition.node_of(values[place])]


def report_across(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a derivation across processes."""
    if result["present"]:
        said = [{**node, "tuple": f"{node['tuple']} at {node['process']}"} for node in result["tuples"]]
        yield from report_explanation({**result, "tuples": said})
    else:
        first, *others = report_explanation(result)
        yield f"{first}, looked for at {result['process']}"
        yield from others
    yield from (f"not looked at: {why}" for why in result["missing"].values())


def explain_parser(program: RowProgram, names: Sequence[str]) -> Parser:
    """Return the parser of ``explain`` with ``--root``."""
    parser = Parser(
        prog=f"{Path(sys.argv[0]).name} explain",
        description="Print the whole derivation of a tuple across the states of all processes: each step with the "
        "process where it holds, down to inputs. Each state is read as of its last commit.",
    )
    parser.add_argument("asked", nargs="?", metavar="TUPLE", help="""for example 'reachable(1, "x")'""")
    parser.add_argument("--root", required=True, metavar="DIR", help="the folder that all processes share")
    parser.add_argument(
        "--home",
        action="append",
        default=[],
        metavar="PROCESS=DIR",
        help=f"the home of a process, such as {names[0]}=DIR (default: as its status says); can be repeated",
    )
    parser.add_argument(
        "--limit",
        type=positive,
        default=MOST_PROOF_TUPLES,
        metavar="N",
        help="print at most N tuples (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--answer", action="store_true", help="answer the questions of another process's explain")
    parser.add_argument(
        "--functions", metavar="FILE.py", help="the file with the external functions of this process and those it asks"
    )
    return parser


def explain_across(program: RowProgram, served: Process | Nodes, argv: Sequence[str]) -> int:
    """Run ``explain`` with ``--root``; return the exit code."""
    if isinstance(served, Nodes):
        every = range(served.partition.count)
        processes = {served.name(number): served.process(number) for number in every}
    else:
        processes = {served.name: served}
    parser = explain_parser(program, [*processes])
    options = parser.parse_args(argv)
    if options.answer == (options.asked is not None):
        parser.error("name the tuple to explain")
    homes = dict(item.partition("=")[::2] for item in options.home)
    if wrong := [item for item in options.home if "=" not in item]:
        parser.error(f"--home {wrong[0]}: give it as PROCESS=DIR")
    root = Path(options.root).absolute()

    def make() -> OpenStates:
        return OpenStates(program, processes, root, homes, scripts_beside(), options.functions)

    if options.answer:
        return answering(make(), next(iter(processes)))
    result = explained_across(make(), program, options.asked, options.limit)
    if options.json:
        print(json.dumps(result, default=value_text))
    else:
        print(*map(visible, report_across(result)), sep="\n")
    return 0


def scripts_beside() -> dict[str, Path]:
    """Return the scripts of processes beside this one, by process."""
    here = Path(sys.argv[0]).absolute().parent
    try:
        told = json.loads((here / "topology.json").read_text(encoding="utf-8"))
        return {one["name"]: here / one["script"] for one in told["processes"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def answering(states: OpenStates, process: str) -> int:
    """Answer questions, one per line, until there are no more; return the exit code."""
    with states.resources:
        for line in sys.stdin:
            try:
                ask = states.ask(process)
                if ask is None:
                    raise JobError(states.missing[process])
                said = {"answer": ask(*json.loads(line))}
            except (JobError, OSError) as error:
                said = {"error": str(error) if isinstance(error, JobError) else reason(error)}
            print(json.dumps(said, default=value_text), flush=True)
    return 0
