"""The root of the command line: what commands there are, and how their errors reach people."""

from __future__ import annotations

import re
import warnings
from difflib import get_close_matches
from errno import ENOSPC
from importlib import import_module
from typing import Any, Final, TextIO

import click
import click.shell_completion

from lace._version import __version__
from lace.cli.exitcodes import Exit
from lace.cli.loudness import loudness, with_loudness
from lace.cli.output import echo
from lace.errors import (
    Code,
    EncodingError,
    InterlaceAborted,
    LaceError,
    LimitExceeded,
    TransportError,
    UsageError,
)
from lace.text import redact, safe

_show_as_python_does: Final = warnings.showwarning

# Loaded when used: a command pays for its own imports only. Module, attribute, one line of help.
_COMMANDS: Final = {
    "add": ("lace.cli.add:add", "Make a record, sign it, store it."),
    "backup": ("lace.cli.backup:backup", "Write the whole store into one file."),
    "check": ("lace.cli.lacegram:check", "Say everything that is wrong with rules."),
    "completion": ("lace.cli.completion:completion", "Let a shell complete lace's words."),
    "contact": ("lace.cli.contact:contact", "Names for other people."),
    "demo": ("lace.cli.demo:demo", "A notes room between two processes, one killed on the way."),
    "diff": ("lace.cli.diff:diff", "Show what two laces do not have in common."),
    "export": ("lace.cli.transfer:export_command", "Write records into a file."),
    "fmt": ("lace.cli.lacegram:fmt", "Write rules in their one canonical spelling."),
    "follow": ("lace.cli.sync:follow", "Interlace with a peer for as long as it lasts."),
    "get": ("lace.cli.records:get", "Show the record at an address."),
    "help": ("lace.cli.help:help_command", "Show a command's help, or a page of documentation."),
    "import": ("lace.cli.transfer:import_command", "Store the records of files."),
    "init": ("lace.cli.init:init", "Make a lace: a store with its settings."),
    "invite": ("lace.cli.invite:invite", "Print one line with which others can join."),
    "join": ("lace.cli.invite:join", "Make a lace as an invitation says."),
    "key": ("lace.cli.key:key", "Make and look at signing keys in files."),
    "keyring": ("lace.cli.keyring:keyring", "Keep signing keys under names."),
    "lake": ("lace.cli.lake:lake", "Records in bulk, on Spark: ingest, select, reconcile."),
    "list": ("lace.cli.records:list_command", "List the records that belong."),
    "log": ("lace.cli.records:log", "Show the versions of the record at a place."),
    "peers": ("lace.cli.status:peers", "List the peers of lace.toml, and when they were met."),
    "plumb": ("lace.cli.plumbing:plumb", "The stable surface for scripts and other programs."),
    "policy": ("lace.cli.policy:policy", "What a selector becomes, and what a peer can learn."),
    "record": ("lace.cli.record:record", "Make, seal, show and verify records."),
    "restore": ("lace.cli.backup:restore", "Make a store from a backup."),
    "room": ("lace.cli.room:room", "Keep a room: its members and their roles."),
    "scenario": ("lace.cli.scenario:scenario", "Run stories of laces that meet: run, test, list."),
    "serve": ("lace.cli.serve:serve", "Let others interlace with a store."),
    "status": ("lace.cli.status:status", "What is here, who was met when, what waits."),
    "store": ("lace.cli.store:store", "Look after a record store: info, check, forget."),
    "sync": ("lace.cli.sync:sync", "Interlace with a peer until nothing is left to exchange."),
    "try": ("lace.cli.trial:try_command", "See what rules would do, without an exchange."),
    "why": ("lace.cli.why:why", "Say why a record belongs, or may travel."),
    "why-not": ("lace.cli.why:why_not", "Say what stands in a record's way."),
    "workbench": ("lace.cli.workbench:workbench", "See laces converge, in a browser."),
}


class _LazyGroup(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Complete the names of commands without loading any of them."""
        if not incomplete.startswith("-"):
            return [
                click.shell_completion.CompletionItem(name, help=_COMMANDS[name][1])
                for name in self.list_commands(ctx)
                if name.startswith(incomplete)
            ]
        return super().shell_complete(ctx, incomplete)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all well, 1 wrong input (rules, records, a store, what a check finds), "
    "2 usage (words, values, settings, keys, a file that is not there), 3 some records "
    "rejected, 4 exchange aborted, 5 stopped by a limit, 6 no such record, or refused, "
    "130 interrupted.",
)
@click.version_option(__version__, message="lace %(version)s")
def root() -> None:
    """Lace makes, checks and converges sets of signed records.

    \b
    Example:
      lace keyring new alice
      lace init notes --key alice --select //notes-demo//notes//
      lace add //notes-demo//notes/message//msg/1 --text "Hello" --lace notes
      lace sync tcp:notes.example.org:4790 --lace notes
    """


with_loudness(root, hidden=False)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; every error is one line and a hint."""
    loudness.begin()
    shown, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        return _run(arguments)
    finally:
        warnings.showwarning = shown
        loudness.end()


def run_within(arguments: list[str]) -> int:
    """Run one command for another that goes on after it, as loud as that one is."""
    return _run(arguments)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning of Lace as a note, and one of a library as Python does."""
    if category.__module__.startswith("lace."):
        echo(f"note: {message}", err=True)
    else:
        _show_as_python_does(message, category, filename, lineno, file, line)


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = root.main(args=arguments, prog_name="lace", standalone_mode=False)
    except click.exceptions.Abort:
        return Exit.INTERRUPTED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        # A group alone: its help is the answer, and no error to be told.
        _complain(error, error.format_message())
        return Exit.USAGE
    except click.ClickException as error:
        where = (
            error.ctx.get_usage() + "\n"
            if isinstance(error, click.UsageError) and error.ctx
            else ""
        )
        _complain(error, f"{where}lace: {redact(_told(error))}")
        return Exit.USAGE
    except SystemExit:
        # Click leaves this way when the reader of a pipe went away: nobody is left to tell.
        return Exit.OK
    except LaceError as error:
        _complain(error, f"lace: {redact(error.message)} [{error.code}]\n  {error.hint}")
        return _exit_code(error)
    except (OSError, UnicodeError, RecursionError) as error:
        code = Code.INPUT_FILE
        full = isinstance(error, OSError) and error.errno == ENOSPC
        hint = "Make room on the disk, and try again." if full else code.fix
        _complain(error, f"lace: {redact(_without_number(error))} [{code}]\n  {hint}")
        named = isinstance(error, OSError) and error.filename is not None
        return Exit.USAGE if named else Exit.BAD_INPUT
    return result if isinstance(result, int) else Exit.OK


def _without_number(error: Exception) -> str:
    """Return what the system says about a file, as the other messages say it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _complain(error: Exception, message: str) -> None:
    """Tell an error, however quiet it is to be; with -v also where it arose."""
    if loudness.verbose:
        import traceback  # only then

        trace = "".join(traceback.format_exception(error))
        click.echo(safe(redact(trace)), file=loudness.stderr, nl=False)
    click.echo(safe(message), file=loudness.stderr)


# What people type who know other tools, and commands that stand below another one.
_MEANT: Final = {
    "admit": "room admit",
    "clone": "join",
    "count": "status",
    "find": "list",
    "forget": "store forget",
    "history": "log",
    "info": "store info",
    "members": "room members",
    "new": "init",
    "pull": "sync",
    "push": "sync",
    "remove": "store forget",
    "rename": "keyring rename",
    "rm": "store forget",
    "roles": "room roles",
    "rotate": "key rotate",
    "show": "get",
    "verify": "store check",
    "version": "--version",
}


def _told(error: click.ClickException) -> str:
    """Return what an error says, with the command that was perhaps meant by one there is not."""
    message = error.format_message()
    found = re.match(r"No such command '(.*?)'\.", message)
    if found is None or not isinstance(error, click.UsageError) or error.ctx is None:
        return message
    group, typed = error.ctx.command, found[1]
    if not isinstance(group, click.Group):
        return message
    near = get_close_matches(typed, group.list_commands(error.ctx), n=2, cutoff=0.6)
    if error.ctx.parent is None and typed in _MEANT:
        near = [_MEANT[typed]]
    # Newer versions of click add a guess of their own, which knows less.
    return f"{found[0]} " + (
        f"Did you mean {' or '.join(near)}?" if near else "lace --help lists all."
    )


def _exit_code(error: LaceError) -> Exit:
    if error.code is Code.RECORD_ABSENT:
        return Exit.NOT_FOUND
    if isinstance(error, UsageError | EncodingError):  # what a file holds wrongly is no exception
        return Exit.USAGE
    if isinstance(error, LimitExceeded):
        return Exit.LIMIT
    if isinstance(error, InterlaceAborted):
        return Exit.LIMIT if error.code is Code.LIMIT_EXCEEDED else Exit.ABORTED
    if isinstance(error, TransportError) and error.code is not Code.TRANSPORT_LISTEN:
        return Exit.ABORTED
    return Exit.BAD_INPUT
