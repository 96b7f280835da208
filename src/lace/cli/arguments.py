"""How commands read what they are given: the same words mean the same everywhere.

A selector and what may be exposed are read as in settings (``lace.settings``). A key is a name of
the keyring or a file. A verifier may be given by a name that it has here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from lace import tai
from lace.cli.files import name_and_value, read_key
from lace.cli.names import key_names, verifiers_by_name, warn_of_demo
from lace.cli.output import echo
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.dates import read_instant
from lace.errors import Code, LaceError, PolicyError, RecordError, UsageError
from lace.ids import Verifier, is_verifier
from lace.keyring import Keyring, is_key_name
from lace.tai import Tai
from lace.text import shown
from lace.transport.address import Scheme

_SECONDS_IN: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SCHEMES: Final = tuple(Scheme)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def complete_keys(_: click.Context, __: click.Parameter, begin: str) -> list[str]:
    """Return the names of the keyring that begin so."""
    return _beginning(begin, lambda: (entry.name for entry in Keyring().known()))


def complete_people(_: click.Context, __: click.Parameter, begin: str) -> list[str]:
    """Return the names that verifiers have here: of the keyring, and contacts."""
    return _beginning(begin, verifiers_by_name)


def complete_peers(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """Return the names of peers in the settings of the lace that is meant."""

    def names() -> Iterable[str]:
        from lace.cli.place import find  # it reads arguments itself

        return find(context.params.get("where")).settings.peers

    return _beginning(begin, names)


def complete_scenarios(_: click.Context, __: click.Parameter, begin: str) -> list[str]:
    """Return the names of the scenarios that come with Lace."""

    def names() -> Iterable[str]:
        from lace.scenario.library import library  # only this needs it

        return library()

    return _beginning(begin, names)


def _beginning(begin: str, names: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return sorted(name for name in names() if name.startswith(begin))
    except (LaceError, OSError):
        return []  # whoever completes wants no complaint


lace_option: Final = click.option(
    "--lace",
    "where",
    metavar="PATH",
    type=click.Path(),  # a shell completes it as a path
    envvar="LACE",
    help="The lace to work in: its folder, or a store file.  [default: the one you are in]",
)


def key_option(
    help: str = "Your key.  [default: the one in lace.toml]", *, required: bool = False
) -> Decorator:
    """Return the option that names a key."""
    return click.option(
        "--key",
        "key_text",
        metavar="NAME|FILE",
        help=help,
        required=required,
        shell_complete=complete_keys,
    )


def select_option(
    help: str = "What belongs: a place, rules, or a file of them.  [default: the one in lace.toml]",
    *,
    multiple: bool = False,
    required: bool = False,
) -> Decorator:
    """Return the option that gives a selector."""
    name = "select_texts" if multiple else "select_text"
    return click.option(
        "--select", name, metavar="SELECTOR", help=help, multiple=multiple, required=required
    )


expose_option: Final = click.option(
    "--expose",
    "exposed",
    multiple=True,
    metavar="none|selected|everything|FILE",
    help="What the peer's rules may see; files are expose modules.  [default: selected]",
)
expect_option: Final = click.option(
    "--expect",
    metavar="NAME|VERIFIER",
    help="Whom the peer must prove to be.",
    shell_complete=complete_people,
)
trust_option: Final = click.option(
    "--trust", metavar="FILE", help="One more certificate to believe, for wss."
)
field_option: Final = click.option(
    "--field", "-f", "fields", multiple=True, metavar="NAME=VALUE", help="Narrow by a field."
)


set_option: Final = click.option(
    "--set",
    "assigned",
    multiple=True,
    metavar="NAME=VALUE",
    help="What {NAME} in a file of rules stands for; repeatable.",
)


def is_address(text: str) -> bool:
    """Whether a text is meant as an address of a peer, and not as a path."""
    return text.partition(":")[0] in _SCHEMES


def read_fields(entries: tuple[str, ...]) -> dict[str, str]:
    """Return what --field narrows by."""
    return dict(map(name_and_value, entries))


def read_parameters(entries: tuple[str, ...]) -> dict[str, str]:
    """Return what --set gives names in braces; say of what is a name here that it stays text."""
    given = read_fields(entries)
    for verifier, name in key_names().items() if given else ():
        if name in given.values():
            echo(f"{name} is a name here, and rules take it for text: {verifier} is whom it means",
                 err=True)  # fmt: skip
    return given


def read_signing_key(text: str, *, warns: bool = True) -> SigningKey:
    """Return the key that is meant: a name of the keyring, or else a file."""
    if not is_key_name(text):
        return read_key(text)
    found = Keyring().get(text)
    if warns:
        warn_of_demo(found)
    return found.key


@contextmanager
def typed() -> Iterator[None]:
    """Turn what is wrong with values that were typed into an error of usage."""
    try:
        yield
    except (PolicyError, RecordError) as error:
        raise UsageError(error.message, code=error.code, hint=error.hint) from error


def read_own_verifier(text: str) -> Verifier:
    """Return the verifier of a key of one's own; of a sealed keyring no passphrase is wanted."""
    return Keyring().find(text).verifier if is_key_name(text) else read_key(text).verifier


def read_time(text: str, what: str) -> Tai:
    """Return the instant that is meant: TAI, a local date with or without a time, or an age."""
    age = re.fullmatch(r"([0-9]{1,6})([smhdw])", text)
    if age:
        back = int(age[1]) * _SECONDS_IN[age[2]] * tai.NS_PER_SECOND
        return tai.from_ns(max(0, tai.to_ns(tai_now()) - back))
    try:
        return read_instant(text)
    except LaceError:
        raise UsageError(
            f"{what}: {shown(text)} is no time",
            code=Code.TAI_MALFORMED,
            hint="Give a date such as 2026-01-31 or 2026-01-31T12:00, an age such as 12h or 7d, or "
            "TAI, 1700000000:000000000.",
        ) from None


def read_verifier(text: str, what: str) -> Verifier:
    """Return the verifier that is meant, by itself or by a name that it has here.

    ``what`` says in an error where it was given.
    """
    if is_verifier(text):
        return Verifier(text)
    named = verifiers_by_name()
    if text in named:
        return named[text]
    known = ", ".join(sorted(named)) or "none"
    raise UsageError(
        f"{what}: {shown(text)} is no verifier, and nobody is called so; there are: {known}",
        code=Code.ID_MALFORMED,
        hint="Give a verifier, V.….H3, a name of the keyring, or a contact.",
    )
