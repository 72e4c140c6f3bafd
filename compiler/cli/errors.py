"""The command ``flintlog errors``."""

from __future__ import annotations

import click

from .main import main


@main.command()
@click.argument("codes", nargs=-1, metavar="[CODE...]")
def errors(codes: tuple[str, ...]) -> None:
    """Explain the codes of errors and warnings.

    Print what each CODE means, with an example and its correction. Without a CODE, list all codes.
    """
    from ..diagnostics import CODES
    from ..diagnostics.index import plain

    requested = [code.upper() for code in codes]
    for code in requested:
        if code not in CODES:
            raise click.UsageError(f"there is no code {code}; `flintlog errors` lists all codes")
    texts = ["\n".join(f"{code}: {title}" for code, title in CODES.items())] if not requested else map(plain, requested)
    click.echo("\n\n".join(texts))
