"""Why the compiler made a rule."""

from __future__ import annotations

from enum import Enum


class Making(Enum):
    """How the compiler made a rule, if later passes need to know; a rule's ``origin`` says it in words."""

    ALTERNATIVE = "one of several rules for the alternatives of a rule"
    PATH = "for a path"
    LINEAR = "made linear"
    EXTREMUM = "for an extremum"
    """Derives the extremum of each group from the tuples that compete."""

    CHOICE = "for the witnesses of an extremum"
    """Selects the tuples that attain an extremum, by joining them with it."""
