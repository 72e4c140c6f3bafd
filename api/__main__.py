"""Run the command ``flintlog`` as ``python -m flintlog``."""

from flintlog.compiler.cli import main

if __name__ == "__main__":
    main(prog_name="flintlog")
