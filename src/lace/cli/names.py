"""Names that verifiers have here, for people to read and to write."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from lace.cli.output import echo
from lace.errors import Code, UsageError
from lace.ids import Verifier
from lace.keyring import Contacts, Keyring, NamedKey
from lace.urc import Coordinate


def _ask_passphrase(what: str) -> str:
    if not sys.stdin.isatty():
        raise UsageError("the keyring is sealed, and nobody is here to ask", code=Code.KEY_SEALED)
    entered: str = click.prompt(what, hide_input=True, err=True)
    return entered


Keyring.ask = staticmethod(_ask_passphrase)


def key_names() -> dict[str, str]:
    """Return the verifiers that have a name here; none if the names cannot be read."""
    try:
        own = [(entry.name, entry.verifier) for entry in Keyring().known()]
        others = Contacts().entries().items()
    except UsageError:
        return {}  # it only makes things easier to read
    # Of several names the first is shown, everywhere; one's own keys go before contacts.
    return {verifier: name for name, verifier in reversed([*own, *others])}


def place_for_people(place: Coordinate | None, names: Mapping[str, str]) -> str:
    """Return a place to look at: a verifier that begins its name is called as it is here."""
    if place is None:
        return ""
    begin, slash, rest = place.name.partition("/")
    return f"//{place.group}//{place.app}//{names.get(begin, begin)}{slash}{rest}"


def verifiers_by_name() -> dict[str, Verifier]:
    """Return what each name stands for, in the keyring and among the contacts.

    A key of one's own goes before a contact of the same name. Raises ``UsageError`` if a file
    cannot be read.
    """
    return Contacts().entries() | {entry.name: entry.verifier for entry in Keyring().known()}


def named(verifier: str) -> str:
    """Return a verifier for people: by its name here, else in full."""
    return key_names().get(verifier, verifier)


def warn_of_demo(used: NamedKey) -> None:
    """Say that a key is a demo key, if it is one."""
    if used.demo:
        echo(f"{used.name} is a demo key: anyone can sign with it", err=True)
