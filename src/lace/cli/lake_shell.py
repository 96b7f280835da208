"""``lace lake shell``: questions to a lake one after the other; what they start is kept."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import click

from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, spark_options
from lace.cli.output import echo
from lace.cli.render import form_option
from lace.errors import Code, UsageError
from lace.limits import LAKE

_QUERY: Final = re.compile(r"(?:SELECT|WITH)\s")
_ENDS: Final = frozenset({"\\q", "quit", "exit"})
_ASKED: Final = {
    "sql": "QUERY                    rows of an SQL query; or begin with SELECT or WITH",
    "select": "SELECTOR [--count]    hashes of the records that a selector selects",
    "why": "SELECTOR HASH            why a record is selected, or why not",
    "info": "                        how much there is, and the newest changes",
}
_PROMPT: Final = "lake> "
_MORE: Final = "  ... "


@click.command("shell")
@click.argument("name", metavar="LAKE")
@form_option
@spark_options
def shell_command(name: str, form: str | None, spark: Spark) -> int:
    """Answer questions to LAKE one after the other: sql, select, why, info, history, help, \\q.

    Spark is started once, when a question needs it. Each question takes the options of the command
    of its name. A line that begins with SELECT or WITH, in capitals, is a query too; one that ends
    with a backslash goes on in the next one. On a terminal an error is told and the next question
    is asked; in a pipe it ends the shell with its exit code.

    \b
    Example:
      lace lake shell notes.lake
      echo "select //notes-demo//notes// --count" | lace lake shell notes.lake
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.tables import Lake

    Lake.open(None, name)  # says at once that there is none
    return _Shell(name, form, spark).run()


class _Shell:
    """What the lines of one shell share."""

    def __init__(self, name: str, form: str | None, spark: Spark) -> None:
        self._name = name
        self._form = [] if form is None else [f"--{form}"]
        self._spark = _spark_arguments(spark)
        self._said: list[str] = []

    def run(self) -> int:
        on_terminal = sys.stdin.isatty()
        lines = _typed() if on_terminal else _piped()
        for line in _whole(lines):
            if line in _ENDS:
                break
            self._said.append(line)
            del self._said[: -LAKE.shell_lines]
            code = self._answer(line)
            sys.stdout.flush()
            if code != Exit.OK and not on_terminal:
                return code
        return Exit.OK

    def _answer(self, line: str) -> int:
        from lace.cli.root import run_within

        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word.lower():
            case "help" | "?":
                return run_within(["lake", rest, "--help"]) if rest in _ASKED else _help()
            case "history":
                for number, said in enumerate(self._said, 1):
                    echo(f"{number:>5}  {said}")
                return Exit.OK
        if _QUERY.match(line):
            word, rest = "sql", line
        if word not in _ASKED:
            return _wrong(f"nobody knows {word!r}: help lists what can be asked")
        try:
            # A query is taken as it is written; options before it need it in quotes.
            whole = word == "sql" and rest and not rest.startswith(("-", "'", '"'))
            given = [rest.removesuffix(";")] if whole else shlex.split(rest)
        except ValueError as error:
            return _wrong(str(error))
        spark = self._spark if word != "info" else []
        form = self._form if word in {"sql", "info"} else []
        return run_within(["lake", word, *spark, *form, self._name, *given])


def _spark_arguments(spark: Spark) -> list[str]:
    """Return the options that say how Spark is started, as they were given."""
    given = ["--memory", spark.memory]
    if spark.master is not None:
        given += ["--master", spark.master]
    if spark.log is not None:
        given += ["--spark-log", str(spark.log)]
    for name, value in spark.settings.items():
        given += ["--conf", f"{name}={value}"]
    return given


def _typed() -> Iterator[str]:
    """Yield what is typed; Ctrl-C takes a line back, Ctrl-D ends."""
    with suppress(ImportError):
        import readline  # noqa: F401 (lines can be edited where it is there)
    prompt = _PROMPT
    while True:
        try:
            line = input(prompt)
        except KeyboardInterrupt:
            echo()
            line = ""
        except EOFError:
            echo()
            return
        prompt = _MORE if line.endswith("\\") and line not in _ENDS else _PROMPT
        yield line


def _piped() -> Iterator[str]:
    stdin: Any = sys.stdin.buffer
    while line := stdin.readline(LAKE.shell_line_bytes + 1):
        if len(line) > LAKE.shell_line_bytes:
            raise UsageError(
                f"a line is longer than {LAKE.shell_line_bytes:,} bytes", code=Code.LIMIT_EXCEEDED
            )
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise UsageError("a line is no UTF-8", code=Code.INPUT_FILE) from None


def _whole(lines: Iterator[str]) -> Iterator[str]:
    """Yield questions: lines that belong together as one, and none that is empty or a comment."""
    held = ""
    for line in lines:
        if line.endswith("\\") and line not in _ENDS:
            held += line[:-1] + " "
        else:
            whole = (held + line).strip()
            held = ""
            if whole and not whole.startswith(("#", "--")):
                yield whole
    if held.strip():
        yield held.strip()


def _help() -> int:
    for word, what in _ASKED.items():
        echo(f"{word} {what}")
    echo("history                      what was asked")
    echo("help [WORD]                  this, or all options of a question")
    echo("\\q                           end")
    return Exit.OK


def _wrong(what: str) -> int:
    echo(f"lace: {what}", err=True)
    return Exit.USAGE
