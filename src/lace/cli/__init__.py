"""The command line. ``main`` is the entry point of the ``lace`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the version is answered before anything heavy is imported."""
    if sys.argv[1:] == ["--version"]:
        from lace._version import __version__

        sys.stdout.write(f"lace {__version__}\n")
        return
    from lace.cli.root import run

    sys.exit(run())
