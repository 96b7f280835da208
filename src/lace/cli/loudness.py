"""How much commands tell beside their results: -q only errors, -v everything there is."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

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


def with_loudness(command: click.Command, *, hidden: bool = True) -> click.Command:
    """Return a command that takes -q and -v, and so do all commands below it."""
    if not any(option.name == "quiet" for option in command.params):
        common: dict[str, Any] = {"is_flag": True, "expose_value": False, "hidden": hidden}
        command.params += [
            click.Option(["-q", "--quiet"], callback=_quiet, help="Tell results and errors only.",
                         **common),
            click.Option(["-v", "--verbose"], callback=_verbose,
                         help="Leave nothing out; tell where an error arose.", **common),
        ]  # fmt: skip
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
