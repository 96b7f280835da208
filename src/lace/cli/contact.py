"""``lace contact``: names for other people."""

from __future__ import annotations

import click

from lace.cli.output import echo
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.keyring import Contacts


@click.group()
def contact() -> None:
    """Give other people's verifiers names, which commands show and take in their place.

    The names are yours alone: they are kept beside your keyring, and never sent.

    \b
    Example:
      lace contact add bob V.SEpnutoWnvlX4JF3xSA9vqWYAd~lL54TkiT9X~Kx9ZO.H3
      lace list --author bob
    """


@contact.command()
@click.argument("name")
@click.argument("verifier")
@click.option("--force", is_flag=True, help="Give it a second name, though it has one.")
def add(name: str, verifier: str, force: bool) -> None:
    """Call VERIFIER by NAME from now on.

    A verifier has one name, and a name means one verifier. Of two names that --force gave, the one
    that comes first in the alphabet is shown.

    \b
    Example:
      lace contact add bob V.SEpnutoWnvlX4JF3xSA9vqWYAd~lL54TkiT9X~Kx9ZO.H3
    """
    Contacts().add(name, verifier, force=force)
    echo(f"{verifier} is called {name} here", err=True)


@contact.command("list")
@form_option
def list_command(form: str | None) -> None:
    """List the names with their verifiers.

    \b
    Example:
      lace contact list
    """
    entries = Contacts().entries()
    wanted = chosen_form(form)
    if wanted == "json":
        for name, verifier in entries.items():
            print_json({"name": name, "verifier": verifier})
    elif wanted == "csv":
        print_csv(("Name", "Verifier"), entries.items())
    elif entries:
        fitted_table(("Name", "Verifier"), [*entries.items()])
    else:
        echo("no contacts yet: lace contact add NAME VERIFIER", err=True)


@contact.command()
@click.argument("name")
def remove(name: str) -> None:
    """Forget NAME; nothing else changes.

    \b
    Example:
      lace contact remove bob
    """
    echo(f"{Contacts().remove(name)} has no name here any more", err=True)
