"""Names that verifiers have here, for people to read and to write."""

from __future__ import annotations

from lace.cli.output import echo
from lace.errors import UsageError
from lace.ids import Verifier
from lace.keyring import Contacts, Keyring, NamedKey


def key_names() -> dict[str, str]:
    """Return the verifiers that have a name here; none if the names cannot be read."""
    try:
        return {verifier: name for name, verifier in verifiers_by_name().items()}
    except UsageError:
        return {}  # it only makes things easier to read


def verifiers_by_name() -> dict[str, Verifier]:
    """Return what each name stands for, in the keyring and among the contacts.

    A key of one's own goes before a contact of the same name. Raises ``UsageError`` if a file
    cannot be read.
    """
    return Contacts().entries() | {entry.name: entry.verifier for entry in Keyring().entries()}


def named(verifier: str) -> str:
    """Return a verifier for people: by its name here, else in full."""
    return key_names().get(verifier, verifier)


def warn_of_demo(used: NamedKey) -> None:
    """Say that a key is a demo key, if it is one."""
    if used.demo:
        echo(f"{used.name} is a demo key: anyone can sign with it", err=True)
