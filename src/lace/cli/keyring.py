"""``lace keyring``: signing keys by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from lace.cli.arguments import complete_keys
from lace.cli.exitcodes import Exit
from lace.cli.files import read_key
from lace.cli.names import warn_of_demo
from lace.cli.output import echo
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.errors import Code, UsageError
from lace.keyring import Contacts, Keyring, named_already


@click.group()
def keyring() -> None:
    """Keep signing keys under names, in a file that only you can read.

    Wherever a command takes --key, it takes a name of the keyring or a key file. The keyring is
    ~/.config/lace/keyring.toml, or the file that LACE_KEYRING names.

    \b
    Example:
      lace keyring new alice
      lace keyring list
    """


@keyring.command()
@click.argument("name")
@click.option("--demo", is_flag=True, help="Make it from its name: the same everywhere, no secret.")
@click.option("--from", "file", metavar="FILE", help="Take over the key in FILE (- is stdin).")
@click.option("--force", is_flag=True, help="Give it a second name, though it has one.")
def new(name: str, demo: bool, file: str | None, force: bool) -> None:
    """Make a key called NAME and print its verifier, which others know it by.

    A demo key is for examples: its verifier is the same on every machine, and anyone can sign with
    it. It is marked as one and can never be taken for another.

    \b
    Example:
      lace keyring new alice
      lace keyring new bob --demo
      lace keyring new old --from me.key
    """
    if demo and file is not None:
        raise click.UsageError("a demo key is made from its name, not taken from a file")
    _free_of_contacts(name)
    taken = None if file is None else read_key(file)
    for called, verifier in Contacts().entries().items():
        if taken is not None and verifier == taken.verifier and not force:
            raise named_already(verifier, called)
    made = Keyring().add(name, taken, demo=demo, force=force)
    warn_of_demo(made)
    echo(made.verifier)


@keyring.command("list")
@form_option
def list_command(form: str | None) -> None:
    """List the names with their verifiers; a table on a terminal, JSON lines in a pipe.

    \b
    Example:
      lace keyring list
    """
    keys = Keyring().known()
    wanted = chosen_form(form)
    rows = [(e.name, e.verifier, "demo: no secret" if e.demo else "") for e in keys]
    if wanted == "json":
        for entry in keys:
            print_json({"demo": entry.demo, "name": entry.name, "verifier": entry.verifier})
    elif wanted == "csv":
        print_csv(("Name", "Verifier", "Remark"), rows)
    elif keys:
        fitted_table(("Name", "Verifier", "Remark"), rows, drop=("Remark",))
    else:
        echo("no keys yet: lace keyring new NAME makes one", err=True)


@keyring.command()
@click.argument("name", shell_complete=complete_keys)
@click.option("--secret", is_flag=True, help="Print the secret instead. Keep it to yourself.")
def show(name: str, secret: bool) -> None:
    """Print the verifier of the key called NAME.

    \b
    Example:
      lace keyring show alice
    """
    ring = Keyring()
    public = {entry.name: entry.verifier for entry in ring.known()}
    if secret or name not in public:
        echo(ring.get(name).key.reveal())  # or it says which names there are
    else:
        echo(public[name])


@keyring.command()
@click.argument("name")
@click.argument("new_name", metavar="NEW")
def rename(name: str, new_name: str) -> None:
    """Call the key NAME by the name NEW; lace.toml files that name it must be changed too.

    \b
    Example:
      lace keyring rename alice alice-2025
    """
    _free_of_contacts(new_name)
    Keyring().rename(name, new_name)
    echo(f"{name} is called {new_name} now", err=True)


@keyring.command()
@click.option("--remove", is_flag=True, help="Keep the keys without a passphrase again.")
def passphrase(remove: bool) -> None:
    """Seal the keyring with a passphrase, or change it.

    Names and verifiers can still be listed without it. Commands that sign or prove a key ask for
    it; scripts give it in the environment variable LACE_PASSPHRASE, and here a new one in
    LACE_NEW_PASSPHRASE. A passphrase that is lost is lost with the keys.

    \b
    Example:
      lace keyring passphrase
      lace keyring passphrase --remove
    """
    ring = Keyring()
    ring.seal(None if remove else _new_passphrase())
    echo(f"{ring.path} is {'not sealed any more' if remove else 'sealed'}", err=True)


@keyring.command()
@click.argument("file")
def backup(file: str) -> None:
    """Write all keys into a new FILE, sealed with a passphrase of its own.

    The passphrase is asked for; scripts give it in LACE_NEW_PASSPHRASE.

    \b
    Example:
      lace keyring backup keys-2026.sealed
    """
    number = Keyring().backup(Path(file), _new_passphrase())
    echo(f"{number} keys are in {file}; keep its passphrase apart from it", err=True)


@keyring.command()
@click.argument("file")
def restore(file: str) -> None:
    """Take over the keys of a backup that are not in the keyring.

    The passphrase of FILE is asked for. Scripts give it in LACE_BACKUP_PASSPHRASE; without that,
    LACE_PASSPHRASE opens FILE too, not only the keyring.

    \b
    Example:
      lace keyring restore keys-2026.sealed
    """
    fresh = Keyring().restore(Path(file), os.environ.get("LACE_BACKUP_PASSPHRASE"))
    echo(f"taken over: {', '.join(fresh) or 'nothing, all of them are here'}", err=True)


def _new_passphrase() -> str:
    given = os.environ.get("LACE_NEW_PASSPHRASE")
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise UsageError(
            "nobody is here to be asked for a passphrase", code=Code.KEY_SEALED,
            hint="Give it in the environment variable LACE_NEW_PASSPHRASE.",
        )  # fmt: skip
    entered: str = click.prompt(
        "New passphrase", hide_input=True, confirmation_prompt=True, err=True
    )
    return entered


def _free_of_contacts(name: str) -> None:
    if name in Contacts().entries():
        raise UsageError(
            f"a contact is called {name}", code=Code.KEY_NAME,
            hint="A name means one verifier: choose another, or remove the contact first.",
        )  # fmt: skip


@keyring.command()
@click.argument("name", shell_complete=complete_keys)
@click.option("--yes", is_flag=True, help="Really remove it; nothing can bring it back.")
def remove(name: str, yes: bool) -> int:
    """Forget the key called NAME for ever; what it signed stays valid.

    \b
    Example:
      lace keyring remove bob --yes
    """
    ring = Keyring()
    found = ring.get(name)
    if not yes:
        echo(f"{name} ({found.verifier}) would be gone for ever; add --yes", err=True)
        return Exit.USAGE
    ring.remove(name)
    echo(f"{name} is removed", err=True)
    return Exit.OK
