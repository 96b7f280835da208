"""How much commands tell beside their results: -q only errors, -v everything there is."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, Final, TextIO

import click


class Loudness:
    """What -q and -v said; one command runs at a time."""

    def __init__(self) -> None:
        self.quiet = False
        self.verbose = False
        self._stderr: TextIO | None = None

    def begin(self) -> None:
        """Forget what an earlier command was told."""
        self.quiet = self.verbose = False
        self._stderr = None

    def hush(self) -> None:
        """Tell nothing on standard error from now on; errors still come through ``end``."""
        if self._stderr is None:
            self._stderr, sys.stderr = sys.stderr, io.TextIOWrapper(io.BytesIO())

    def end(self) -> None:
        """Let standard error be heard again."""
        if self._stderr is not None:
            sys.stderr, self._stderr = self._stderr, None

    @property
    def stderr(self) -> TextIO:
        """Standard error, also where notes are hushed."""
        return self._stderr or sys.stderr


loudness = Loudness()


def shows_progress() -> bool:
    """Whether a line that changes can be shown to somebody."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not loudness.quiet


def _quiet(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        loudness.quiet = True
        loudness.hush()


def _verbose(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        loudness.verbose = True


def _level(context: click.Context, option: click.Parameter, value: str | None) -> None:
    _quiet(context, option, value == "error")
    _verbose(context, option, value == "debug")


_LONG: Final = frozenset((
    "backup", "export", "follow", "import", "ingest", "maintain", "reconcile", "restore", "run",
    "serve", "stream", "sync",
))  # fmt: skip
"""Commands that work long: how much they tell is asked often enough to stand in their help."""


def with_loudness(command: click.Command, *, hidden: bool = True) -> click.Command:
    """Return a command that takes -q and -v, and so do all commands below it."""
    if not any(option.name == "quiet" for option in command.params):
        long = command.name in _LONG and not isinstance(command, click.Group)
        hidden = hidden and not long
        common: dict[str, Any] = {"expose_value": False, "hidden": hidden}
        own = [
            click.Option(["-q", "--quiet"], callback=_quiet, help="Tell results and errors only.",
                         is_flag=True, **common),
            click.Option(["-v", "--verbose"], callback=_verbose,
                         help="Leave nothing out; tell where an error arose.", is_flag=True,
                         **common),
        ]  # fmt: skip
        if long and not any("--log-level" in option.opts for option in command.params):
            levels = click.Choice(("debug", "info", "error"))
            own.append(
                click.Option(["--log-level"], type=levels, callback=_level,
                             help="debug is --verbose, error is --quiet.  [default: info]",
                             **common)
            )  # fmt: skip
        command.params += own
        if isinstance(command, click.Group):
            _below(command)
    return command


def _below(group: click.Group) -> None:
    """Let the commands of a group take them too, when they are looked up: some are made then."""
    look_up = group.get_command

    def get_command(context: click.Context, name: str) -> click.Command | None:
        found = look_up(context, name)
        return None if found is None else with_loudness(found)

    group.get_command = get_command  # type: ignore[assignment]
