"""``lace keyring``: signing keys by name."""

from __future__ import annotations

import click

from lace.cli.arguments import complete_keys
from lace.cli.exitcodes import Exit
from lace.cli.files import read_key
from lace.cli.names import warn_of_demo
from lace.cli.output import echo
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.errors import Code, UsageError
from lace.keyring import Contacts, Keyring


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
def new(name: str, demo: bool, file: str | None) -> None:
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
    if name in Contacts().entries():
        raise UsageError(
            f"a contact is called {name}", code=Code.KEY_NAME,
            hint="A name means one verifier: choose another, or remove the contact first.",
        )  # fmt: skip
    made = Keyring().add(name, read_key(file) if file is not None else None, demo=demo)
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
    keys = Keyring().entries()
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
    found = Keyring().get(name)
    echo(found.key.reveal() if secret else found.verifier)


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
