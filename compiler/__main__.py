"""``python -m flintlog.compiler`` is the command ``flintlog``."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="flintlog")
