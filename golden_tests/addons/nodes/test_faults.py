"""Versions of the algorithm that are broken on purpose are caught by random programs: what each rule is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from flintlog.runtime.addons.processes.simulation import Network, Packet, SimulatedNode
from flintlog.runtime.engines.duckdb import DuckEngine
from flintlog.runtime.kernel import identities, identity_ranges, proofs
from flintlog.runtime.kernel.method_interface import METHODS

from golden_tests.addons.nodes.test_simulation import run
from golden_tests.nightly import AT_NIGHT, by_day

#: The most programs that a fault may survive.
MOST = 400


def no_deaths(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told of base facts that are gone."""
    patch.setattr(identity_ranges, "buried", lambda *_: [])


def same_life(patch: pytest.MonkeyPatch) -> None:
    """A node comes back under its old life, and numbers its base facts from 1 again."""
    patch.setattr(SimulatedNode, "life", property(lambda node: f"{node.number:04x}{0:012x}"))


def same_name(patch: pytest.MonkeyPatch) -> None:
    """A base fact that comes back gets its old identity."""
    maintain = identities.maintain_identities

    def always_from_zero(run: Any, stratum: Any, clock: int) -> int:
        return maintain(run, stratum, 0)

    patch.setitem(METHODS, "identities", METHODS["identities"]._replace(maintain=always_from_zero))


def kept_lives(patch: pytest.MonkeyPatch) -> None:
    """What a node said in an earlier life still counts."""
    note = SimulatedNode.note_lives

    def add(node: SimulatedNode, changes: dict[str, Counter[Any]]) -> None:
        before = set(node.lives)
        note(node, changes)
        found = changes.get(node.process.lives, Counter())
        for row in before - node.lives:
            found[row] += 1
        node.lives |= before

    patch.setattr(SimulatedNode, "note_lives", add)


def no_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A node that comes back is not sent what the others have for it."""
    post = Network.post

    def without(network: Network, packet: Packet) -> None:
        again = packet.snapshot and packet.life[1] > len(network.numbers) * len(network.nodes.routes) * 4
        post(network, packet._replace(rows=()) if again else packet)

    patch.setattr(Network, "post", without)


def no_second_proof(patch: pytest.MonkeyPatch) -> None:
    """A tuple whose proof has died is not derived again."""
    first = proofs.first_proofs

    def only_new(run: Any, stratum: Any, relation: Any) -> list[str]:
        run.engine.empty(f"{relation.table}__dead", proofs.proved_columns(relation))
        return first(run, stratum, relation)

    patch.setattr(proofs, "first_proofs", only_new)


def dead_on_arrival(patch: pytest.MonkeyPatch) -> None:
    """A proof that is dead when it arrives is taken for a live one."""
    find = proofs.find_proofs

    def trusting(engine: DuckEngine, stratum: Any, relation: Any, derived: Any, foreign: bool) -> None:
        find(engine, stratum, relation, derived, False)

    patch.setattr(proofs, "find_proofs", trusting)


FAULTS = (no_deaths, same_life, same_name, kept_lives, no_snapshot, no_second_proof, dead_on_arrival)


@by_day(3)
@pytest.mark.parametrize(
    "fault",
    [FAULTS[0], *(pytest.param(fault, marks=AT_NIGHT) for fault in FAULTS[1:])],
    ids=lambda fault: fault.__name__,
)
def test_faults_are_caught(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """At the latest after this number of programs."""
    fault(monkeypatch)
    for seed in range(MOST):
        try:
            run(seed)
        except Exception:
            return
    pytest.fail(f"{fault.__name__} was not caught by {MOST} programs")
