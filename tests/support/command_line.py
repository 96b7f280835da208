"""Commands as documents write them: found in text, and read by the command line without being run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from lace.cli.root import root

_REDIRECTION = re.compile(r"\s\d?>>?\s*\S+|\s\d?>&\d|\s<<?\s*\S+")
_BETWEEN = re.compile(r"\|\|?|&&?|;|\$\(|\)")
_FLAG = re.compile(r"--[a-z][a-z-]*")


def find_command(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """Return the command that words mean, the context that it is read in, and the words left."""
    command: click.Command = root
    context = click.Context(root, info_name="lace")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"lace has no command {rest[0]}"
        command, name = found, rest.pop(0)
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name, parent=context)
    return command, context, rest


def parse_command(words: list[str]) -> click.Context:
    """Let the command that words mean read its arguments, without running it."""
    command, context, rest = find_command(words)
    assert not isinstance(command, click.Group), f"lace {' '.join(words)} is no whole command"
    return command.make_context(words[0], rest, parent=context)


def flags_of(command: click.Command) -> set[str]:
    return {
        flag
        for option in command.params
        if isinstance(option, click.Option)
        for flag in (*option.opts, *option.secondary_opts)
    } | {"--help", "-h", "--version"}


def in_shell(text: str) -> Iterator[list[str]]:
    """Yield the words after ``lace`` of each command in lines of a shell."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        bare = _REDIRECTION.sub(" ", line.strip().removeprefix("$ "))
        for part in _parts(bare):
            words = re.sub(r"^(?:do|then|\w+=\S*|time)\s+", "", part.strip())
            if re.match(r"lace [a-z]", words):
                yield shlex.split(words, comments=True)[1:]


def _parts(line: str) -> Iterator[str]:
    """Yield what stands between operators of the shell; within quotes there are none."""
    part = ""
    for piece in re.split(r"('[^']*'|\"[^\"]*\")", line):
        if piece[:1] in ("'", '"'):
            part += piece
            continue
        first, *others = _BETWEEN.split(piece)
        part += first
        for other in others:
            yield part
            part = other
    yield part


def in_prose(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield, of each command in backticks, the words that name it and its flags."""
    for code in re.findall(r"`lace ([a-z][^`]*)`", text):
        if "…" in code:
            continue  # words were left out
        words = re.split(r"[\s=]+", code.strip())
        named: list[str] = []
        for word in words:
            if not re.fullmatch(r"[a-z][a-z-]*(?:\|[a-z-]+)*", word):
                break
            named.append(word)
        yield named, _FLAG.findall(code)
