"""How commands read what they are given: the same words mean the same everywhere.

A selector is a place, rules, or a file of rules, with or without ``file:``. A key is a name of the
keyring or a file. A verifier may be given by a name that it has here. What may be exposed is one
word, files of expose modules, or both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lace.cli.files import name_and_value, read_at_most, read_key
from lace.cli.names import verifiers_by_name, warn_of_demo
from lace.crypto.keys import SigningKey
from lace.errors import Code, UsageError
from lace.ids import Verifier, is_verifier
from lace.keyring import Keyring, is_key_name
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.view import Expose, Exposure
from lace.selectors import selector
from lace.text import shown
from lace.transport.address import Scheme

_WORDS: Final[tuple[Expose, ...]] = ("none", "selected", "everything")
_SCHEMES: Final = tuple(Scheme)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

lace_option: Final = click.option(
    "--lace",
    "where",
    metavar="PATH",
    envvar="LACE",
    help="The lace to work in: its folder, or a store file.  [default: the one you are in]",
)


def key_option(
    help: str = "Your key.  [default: the one in lace.toml]", *, required: bool = False
) -> Decorator:
    """Return the option that names a key."""
    return click.option("--key", "key_text", metavar="NAME|FILE", help=help, required=required)


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
    "--expect", metavar="NAME|VERIFIER", help="Whom the peer must prove to be."
)
trust_option: Final = click.option(
    "--trust", metavar="FILE", help="One more certificate to believe, for wss."
)
field_option: Final = click.option(
    "--field", "-f", "fields", multiple=True, metavar="NAME=VALUE", help="Narrow by a field."
)


def is_address(text: str) -> bool:
    """Whether a text is meant as an address of a peer, and not as a path."""
    return text.partition(":")[0] in _SCHEMES


def is_file(text: str) -> bool:
    """Whether a selector is meant as a file of rules."""
    return not (text.startswith("//") or ":-" in text)


def read_selector(
    text: str, folder: Path | None = None, fields: Mapping[str, str] | None = None
) -> PolicyModule:
    """Return the module of a place, of rules, or of a file; a relative one is from ``folder``."""
    if not is_file(text):
        return selector(text, fields)
    if fields:
        raise UsageError("rules take no field filter", code=Code.POLICY_SELECTOR)
    return module_from_text(_rules(text, folder))


def read_fields(entries: tuple[str, ...]) -> dict[str, str]:
    """Return what --field narrows by."""
    return dict(map(name_and_value, entries))


def read_exposure(choices: tuple[str, ...], folder: Path | None = None) -> Exposure:
    """Return the exposure of words and files of expose modules; of nothing, what is selected."""
    words = [choice for choice in choices if choice in _WORDS]
    files = [choice for choice in choices if choice not in _WORDS]
    if len(set(words)) > 1:
        raise UsageError(
            f"{' and '.join(words)} cannot both be exposed", code=Code.POLICY_FACET,
            hint="Give one of none, selected, everything.",
        )  # fmt: skip
    modules = tuple(module_from_text(_rules(file, folder), Facet.EXPOSE) for file in files)
    default: Expose = "none" if choices else "selected"
    return Exposure(modules, next((word for word in _WORDS if word in words), default))


def read_signing_key(text: str, *, warns: bool = True) -> SigningKey:
    """Return the key that is meant: a name of the keyring, or else a file."""
    if not is_key_name(text):
        return read_key(text)
    found = Keyring().get(text)
    if warns:
        warn_of_demo(found)
    return found.key


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
        hint="Give a verifier, V.….H3, or a name of the keyring.",
    )


def _rules(text: str, folder: Path | None) -> bytes:
    name = text.removeprefix("file:")
    path = name if folder is None else str(folder / name)
    return read_at_most(path, DEFAULT_LIMITS.lacegram_bytes + 1)
