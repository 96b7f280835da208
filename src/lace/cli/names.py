"""Names that verifiers have here, for people to read and to write."""

from __future__ import annotations

import click

from lace.errors import UsageError
from lace.ids import Verifier
from lace.keyring import Keyring, NamedKey


def key_names() -> dict[str, str]:
    """Return the verifiers that have a name here; none if the keyring cannot be read."""
    try:
        return {entry.verifier: entry.name for entry in Keyring().entries()}
    except UsageError:
        return {}  # it only makes things easier to read


def verifiers_by_name() -> dict[str, Verifier]:
    """Return what each name stands for; raise ``UsageError`` if the keyring cannot be read."""
    return {entry.name: entry.verifier for entry in Keyring().entries()}


def warn_of_demo(used: NamedKey) -> None:
    """Say that a key is a demo key, if it is one."""
    if used.demo:
        click.echo(f"{used.name} is a demo key: anyone can sign with it", err=True)
