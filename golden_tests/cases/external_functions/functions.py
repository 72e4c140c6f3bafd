"""The external functions of this case."""

from datetime import date


def risk(x: int, s: str) -> float | None:
    """Divides by zero for 7, gives nothing for 8 and an integer for 9, which is as good as a float."""
    if x == 8:
        return None
    return 9 if x == 9 else x / (x - 7) + len(s)


def risky(f: float) -> bool:
    """Whether it is much."""
    return f > 20.0


def least_alarm() -> float:
    """The same every time."""
    return 20.0


def route(p: list[int], d: date) -> tuple[str, ...]:
    """A tuple does for a list."""
    return tuple(f"{d.year}-{stop}" for stop in p)


def next(x: int) -> int:
    """Never beyond 64 bits, but for 40."""
    return 2**63 if x == 40 else x * 2
