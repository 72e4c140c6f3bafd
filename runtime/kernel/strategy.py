"""Choose for each stratum whether to follow the changes or to compute it from scratch.

Following changes that affect most of a stratum costs more than computing it again. Both give the same tuples and net
changes; ranks and supports, which depend on history anyway, may differ. The price of following deletions through a
recursion is in units of computing it from scratch: each round looks at all tuples, and each touched tuple is looked
up, removed, perhaps put back and derived again; a tuple that enters costs the same either way. How many tuples are
touched depends on the data, so the price is estimated from earlier batches.

A small stratum costs as much as the statements that it takes, however few rows they work on. How many that are to
compute it is known from the last time; to follow changes takes at least as many as the method needs for one change.
Deletions from small recursions may take more than twice as many, or half, and are given up early.
Of larger strata, the seconds are known that the thread worked the last time: to compute them, and to follow changes.
"""

from __future__ import annotations

from .changes import changed_table, check_key, no_changes, note_changes, note_differences
from .engine import Engine
from .method_interface import METHODS, PRICE_OF_ROUND, Choice, Effect, Run
from .model import Stratum
from .sql import names, no_rows

FEW_TUPLES = 10_000
"""A stratum with fewer tuples is small."""

QUICK_STATEMENTS = 70
"""A small stratum that took longer to compute than this many statements take, since its tuples have many derivations,
follows the changes."""

USUAL_STATEMENTS = 14
"""If a small stratum takes more statements than these to compute, it may take longer in proportion: on a busy machine
all statements take longer."""

LARGE_SHARE = 0.3
"""If more than this share of what a stratum reads has changed, it is computed from scratch."""

PRICE_OF_SUSPECTS = 3.0
"""The price of deletions that touch as many tuples as there are."""

SMALL_DELETIONS = 1.5
"""Before anything was deleted from what a small recursion reads, following deletions is expected to take this many
times the statements that computing the recursion takes."""

SMALL_PART = 1 / 3
"""In a small stratum, deletions are given up after this part of the statements that it takes to compute it."""

UNFINISHED = 2.0
"""How many times what deletions cost it is expected to cost to follow them to their end and let tuples return."""

SIMILAR = 2.0
"""Changes are similar to earlier ones if they are at most this many times as large."""

SECONDS_TO_COMPARE = 2e-7
"""How many seconds it takes to compare a tuple of a stratum that was computed from scratch with what was there."""

STATEMENTS_TO_COMPARE = 2
"""How many statements that takes for each relation, apart from those on few rows."""

DECAY = 0.9
"""The factor of a price after each batch that was computed from scratch because of it: no batch decides forever."""

LEAST_FOLLOWED = 0.05
"""Deletions are not given up for the time that they take before they took this share of computing the stratum."""


class TooManySuspects(Exception):
    """Raised when computing the stratum from scratch is cheaper than following deletions, which touch too many tuples:
    why, and the expected price of following them to their end."""

    def __init__(self, reason: str, price: float) -> None:
        """Note the reason and the price."""
        super().__init__(reason)
        self.price = price


def maintain(run: Run, stratum: Stratum, clock: int) -> int:
    """Bring the relations of a stratum from the old state to the new one; return its new clock."""
    engine = run.engine
    if run.initial:
        clock = build(run, stratum, clock)
    elif any(changed := changed_shares(engine, stratum)):
        clock = follow_or_recompute(run, stratum, clock, *changed)
    else:
        for relation in stratum.relations:
            no_changes(engine, relation)
        return clock
    for relation in stratum.relations:
        check_key(engine, relation, run.initial)
    return clock


def build(run: Run, stratum: Stratum, clock: int) -> int:
    """Compute a stratum for the first time or again, record what that took, and return its new clock."""
    engine, effects = run.engine, run.choice.effects
    started, before, rounds = seconds_worked(engine), engine.statements, 0

    def note(name: str, phase: str, done: int, tuples: int) -> None:
        nonlocal rounds
        rounds += 1
        run.note(name, phase, done, tuples)

    clock = METHODS[stratum.kind].maintain(run._replace(initial=True, note=note), stratum, clock)
    # To compare it with what was there takes more for each relation, and reads all tuples.
    built = float(engine.statements - before + STATEMENTS_TO_COMPARE * len(stratum.relations))
    compared = SECONDS_TO_COMPARE * sum(engine.rows(relation.table) for relation in stratum.relations)
    seconds = round(seconds_worked(engine) - started + compared, 4)
    effects[stratum.name] = effects.get(stratum.name, Effect())._replace(
        built=built, seconds=seconds, built_rounds=float(rounds)
    )
    return clock


def seconds_worked(engine: Engine) -> float:
    """Return a reading of the clock by which the ways to maintain a stratum are compared."""
    return engine.worked()


def changed_shares(engine: Engine, stratum: Stratum) -> tuple[float, float]:
    """Return which shares of the tuples that a stratum reads, before or after the batch, have changed in a way that may
    cost it derivations, and in a way that may give it some."""
    below = {r.table: r for r in (*stratum.reads, *stratum.negates)}
    lost, gained = (
        sum(engine.rows(changed_table(r.change, phase, negated=False)) for r in stratum.reads)
        + sum(engine.rows(changed_table(r.change, phase, negated=True)) for r in stratum.negates)
        for phase in ("delete", "insert")
    )
    stored = sum(engine.rows(table) + engine.rows(relation.change.lost) for table, relation in below.items())
    return lost / max(1, stored), gained / max(1, stored)


def follow_or_recompute(run: Run, stratum: Stratum, clock: int, lost: float, gained: float) -> int:
    """Maintain a stratum in the cheaper way, given the shares of what it reads that were ``lost`` and ``gained``;
    record the effect and return its new clock."""
    engine, choice = run.engine, run.choice
    stored = max(1, sum(engine.rows(relation.table) for relation in stratum.relations))
    effect = choice.effects.get(stratum.name, Effect())
    follows, pace = METHODS[stratum.kind].follows, engine.seconds_of_statement
    reason = "" if follows else reason_for_scratch(choice, stratum, effect, pace, stored, lost, gained)
    if reason:
        if choice.strategy == "auto":
            choice.effects[stratum.name] = decayed(stratum, effect, stored, lost)
        return from_scratch(run, stratum, reason, False)
    rounds, before, started = 0, engine.statements, seconds_worked(engine)

    def note(name: str, phase: str, done: int, tuples: int) -> None:
        nonlocal rounds
        rounds += phase == "delete"
        run.note(name, phase, done, tuples)

    given_up = 0.0
    try:
        clock = METHODS[stratum.kind].maintain(run._replace(note=note), stratum, clock)
    except TooManySuspects as error:
        reason, given_up = str(error), error.price
    if is_recursive(stratum):
        touched = sum(engine.rows(relation.change.touched) for relation in stratum.relations)
        entered = 0 if reason else sum(engine.rows(relation.change.gained) for relation in stratum.relations)
        if lost:
            # A smaller batch may need as few rounds as before.
            suspects = PRICE_OF_SUSPECTS * (touched - entered) / stored
            if reason:
                suspects = max(0.0, given_up - PRICE_OF_ROUND * rounds)
            effect = effect._replace(rounds=float(rounds), lost=suspects / lost)
        if gained and not reason:
            effect = effect._replace(gained=entered / stored / gained)
    if reason:
        # What smaller changes took says nothing about those that were given up: the price does.
        effect = effect._replace(follow_seconds=0.0, followed=UNFINISHED * effect.built, follow_lost=lost)
    else:
        took = round(seconds_worked(engine) - started, 4)
        done = float(engine.statements - before)
        effect = effect._replace(followed=done, follow_seconds=took, follow_lost=lost, follow_gained=gained)
    choice.effects[stratum.name] = effect
    return from_scratch(run, stratum, reason, True) if reason else clock


def reason_for_scratch(
    choice: Choice, stratum: Stratum, effect: Effect, statement: float, stored: int, lost: float, gained: float
) -> str:
    """Return why to compute a stratum of ``stored`` tuples from scratch, decided before anything is done; empty if not.
    ``effect`` is the known effect of changes on it, ``statement`` how many seconds a statement takes."""
    if choice.strategy != "auto":
        return "asked for" if choice.strategy == "recompute" else ""
    comparable = is_comparable(stratum)
    if stored < FEW_TUPLES:
        expected = expected_statements(stratum, effect, lost)
        if comparable and effect.built < expected and is_quick(effect, statement):
            return f"it is small: to compute it takes {effect.built:.0f} statements, to follow changes {expected:.0f}"
        return ""
    if lost + gained > LARGE_SHARE:
        return f"{lost + gained:.0%} of what it reads has changed"
    price = price_of_following(stratum, effect, lost, gained)
    # Without recursion nothing is known to be expensive before it has been measured.
    if comparable and effect.seconds:
        price = seconds_to_follow(stratum, effect, statement, lost, gained) / effect.seconds
    elif not is_recursive(stratum):
        price = 0.0
    if price > 1:
        changed = f"{lost:.2%} of what it reads was lost and {gained:.2%} gained"
        return f"{changed}; to follow that would cost about {price:.1f} times as much"
    return ""


def decayed(stratum: Stratum, effect: Effect, stored: int, lost: float) -> Effect:
    """Return what is left of the known effect of changes on a stratum of ``stored`` tuples after it was computed from
    scratch because of that."""
    less = {name: getattr(effect, name) * DECAY for name in ("rounds", "lost", "gained", "follow_seconds")}
    rest = effect._replace(followed=effect.followed / 2, **less)
    if stored >= FEW_TUPLES or not is_recursive(stratum):
        return rest
    if not lost and effect.follow_lost:
        # What is known of deletions stays.
        return rest._replace(followed=effect.followed)
    if lost and not effect.follow_lost:
        rest = rest._replace(follow_lost=lost, follow_seconds=0.0)
    return rest._replace(followed=expected_statements(stratum, effect, lost) * DECAY)


def is_comparable(stratum: Stratum) -> bool:
    """Return whether the ways to maintain a stratum differ in time only: calls may cost more than statements, and only
    an incremental sum says which group is out of range."""
    return not stratum.ranged and not any(rule.calls for rule in stratum.rules)


def is_quick(effect: Effect, statement: float) -> bool:
    """Return whether computing a small stratum takes no longer than a few statements of ``statement`` seconds each."""
    longer = max(1.0, effect.built / USUAL_STATEMENTS)
    return effect.built > 0 and effect.seconds < QUICK_STATEMENTS * longer * statement


def expected_statements(stratum: Stratum, effect: Effect, lost: float) -> float:
    """Return how many statements following changes is expected to take: as many as the last time. What deletions from a
    recursion took says nothing about insertions alone."""
    followed = effect.followed
    if is_recursive(stratum) and lost and not followed:
        followed = SMALL_DELETIONS * effect.built
    elif is_recursive(stratum) and not lost and effect.follow_lost:
        followed = 0.0
    return max(followed, METHODS[stratum.kind].statements)


def is_recursive(stratum: Stratum) -> bool:
    """Return whether a stratum takes rounds."""
    return any(rule.rounds for rule in stratum.rules)


def price_of_following(stratum: Stratum, effect: Effect, lost: float, gained: float) -> float:
    """Return the expected price of following changes, if these shares of what a stratum reads were lost and gained, in
    units of computing it from scratch. Without recursion there are no rounds that look at all tuples."""
    return effect.price(lost, gained) if is_recursive(stratum) else lost + gained


def seconds_to_follow(stratum: Stratum, effect: Effect, statement: float, lost: float, gained: float) -> float:
    """Return how many seconds it is expected to take to follow changes, if these shares of what a stratum reads were
    lost and gained; what similar changes took says more than the price does."""
    price = price_of_following(stratum, effect, lost, gained)
    if effect.follow_seconds and lost <= SIMILAR * effect.follow_lost and gained <= SIMILAR * effect.follow_gained:
        fixed = min(effect.follow_seconds, statement * effect.followed)
        earlier = price_of_following(stratum, effect, effect.follow_lost, effect.follow_gained)
        return fixed + (effect.follow_seconds - fixed) * (min(price / earlier, SIMILAR) if earlier else 1.0)
    # A recursion takes the statements of both phases, apart from their rounds.
    phases = 2 if lost and gained and is_recursive(stratum) else 1
    expected = statement * METHODS[stratum.kind].statements * phases + price * effect.seconds
    return max(expected, effect.follow_seconds)


def from_scratch(run: Run, stratum: Stratum, reason: str, begun: bool) -> int:
    """Compute a stratum again, also if deletions have ``begun``, and find its net changes; return its new clock."""
    engine, tables = run.engine, [relation.table for relation in stratum.relations]
    run.choice.scratch[stratum.name] = reason
    if begun:
        run.choice.rewritten.update(tables)
    for relation in stratum.relations:
        table, columns = relation.tables, names(relation.tuple_columns)
        if begun:
            gone = f"SELECT {columns} FROM {relation.change.touched} WHERE _gone"
            engine.table(table.was, f"SELECT {columns} FROM {table} UNION ALL {gone}")
        else:
            engine.rename(table, table.was)
    clock = build(run, stratum, 0)
    for relation in stratum.relations:
        table = relation.tables
        if table in run.choice.rewritten:
            note_changes(engine, relation, table.was, table)
        else:
            note_differences(engine, relation, table.was)
        if engine.rows(table.was) > FEW_TUPLES:
            # Its memory is needed.
            engine.table(table.was, no_rows(relation.tuple_columns, engine.name))
    return clock
