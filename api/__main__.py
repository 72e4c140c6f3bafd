"""Run the command ``flintlog``, also as ``python -m flintlog``."""

import signal


def main() -> None:
    """Run the command line. What it imports takes a second, in which Ctrl-C ends it without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from flintlog.compiler.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run(prog_name="flintlog")
    finally:
        # Nor does it end with one while Python stops.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
