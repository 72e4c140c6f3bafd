"""The external function of this case."""


def half(x: int) -> int:
    """Of even numbers only."""
    if x % 2:
        raise ValueError("odd")
    return x // 2
