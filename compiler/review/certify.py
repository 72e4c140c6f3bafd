"""Delta certificates: proof that the delta rules of a rule cover each change exactly once.

Expanding ``∏(b_i + Δb_i) − ∏ b_i`` gives one monomial for each non-empty set of positions that contribute their change.
A delta rule covers the monomials that agree with its versions: Δ requires the change, the version before the phase
excludes it, the version after it allows both. The certificate holds if exactly one delta rule covers each monomial.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from ..ir.delta import DeltaProgram, DeltaRule, RuleDeltas, Version

MOST_EXPANDED = 12
"""Rules with more body literals are certified by the form of their delta rules, not monomial by monomial."""


@dataclass(frozen=True)
class Certificate:
    """The certificate of a rule: each monomial as text, with the positions of the delta rules that cover it."""

    deltas: RuleDeltas
    monomials: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def holds(self) -> bool:
        """Return whether each monomial is covered exactly once."""
        return all(len(covers) == 1 for _, covers in self.monomials)

    def __str__(self) -> str:
        rule = self.deltas.rule
        literals = [str(v.literal) for v in self.deltas.all[0].body] if self.deltas.all else []
        lines = [f"{rule.label}: {rule.head} :- {', '.join(literals) or 'nothing that changes'}"]
        for delta in self.deltas.all:
            lines.append(f"  Δ{delta.position + 1}: {', '.join(map(str, delta.body))}")
        for text, covers in self.monomials:
            by = ", ".join(f"Δ{position + 1}" for position in covers) or "nothing"
            lines.append(f"  {text}  by {by}")
        verdict = "every change is counted exactly once" if self.holds else "NOT covered exactly once"
        lines.append(f"  deletions (old to mid) and insertions (mid to new): {verdict}")
        return "\n".join(lines)


def certify(program: DeltaProgram) -> tuple[Certificate, ...]:
    """Return the certificates of all rules with delta rules, in the order of evaluation: those that select by the time
    are kept by their bounds."""
    strata = (stratum for stratum in program.strata if stratum.stratum.kind != "timed")
    return tuple(certify_rule(rule) for stratum in strata for rule in stratum.rules)


def certify_rule(deltas: RuleDeltas) -> Certificate:
    """Return the certificate of a rule.

    Up to :data:`MOST_EXPANDED` literals, list all monomials. Beyond that, group them by the last position that
    contributes its change, which the versions of a delta rule determine.
    """
    count = len(deltas.all)
    body = deltas.all[0].body if deltas.all else ()
    names = [f"{'!' * versioned.negated}{versioned.atom.relation}" for versioned in body]
    if count > MOST_EXPANDED:
        return Certificate(deltas, tuple(_grouped(deltas, last) for last in range(count)))
    monomials = []
    for chosen in product((False, True), repeat=count):
        if any(chosen):
            text = " ".join(f"Δ{name}" if change else name for name, change in zip(names, chosen, strict=True))
            monomials.append((text, tuple(d.position for d in deltas.all if _covers(d, chosen))))
    return Certificate(deltas, tuple(monomials))


def _covers(delta: DeltaRule, chosen: tuple[bool, ...]) -> bool:
    changes = {Version.DELTA: (True,), Version.BEFORE: (False,), Version.AFTER: (False, True)}
    return all(change in changes[v.version] for v, change in zip(delta.body, chosen, strict=True))


def _grouped(deltas: RuleDeltas, last: int) -> tuple[str, tuple[int, ...]]:
    form = [Version.AFTER] * last + [Version.DELTA] + [Version.BEFORE] * (len(deltas.all) - last - 1)
    covers = tuple(d.position for d in deltas.all if [v.version for v in d.body] == form)
    return f"monomials whose last change is that of literal {last + 1}", covers
