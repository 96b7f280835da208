"""The command line. ``main`` is the entry point of the ``lace`` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; the version is answered before anything heavy is imported."""
    try:
        _settle_streams()
        code = _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 0  # the reader went away: nobody is left to tell
        sys.stdout = None
    except OSError as error:
        code = 1
        sys.stderr.write(f"lace: {error.strerror}\n")
    # Leave without flushing again: what could be written was written.
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(code)


def _run() -> int:
    if sys.argv[1:] == ["--version"]:
        from lace._version import __version__

        sys.stdout.write(f"lace {__version__}\n")
        return 0
    from lace.cli.root import run

    return run()


def _settle_streams() -> None:
    """Give every stream an end, and let no character be unprintable."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        else:
            stream.reconfigure(errors="backslashreplace")
