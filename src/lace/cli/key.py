"""``lace key``: make and look at signing keys."""

from __future__ import annotations

import click

from lace.cli.files import read_key, write_key
from lace.crypto.keys import SigningKey


@click.group()
def key() -> None:
    """Make and look at signing keys.

    \b
    Example:
      lace key new me.key
      lace key show me.key
    """


@key.command("new")
@click.argument("file")
def new(file: str) -> None:
    """Make a key and keep its secret in FILE, readable by you alone; print the verifier.

    The verifier is what others know you by; share it freely. An existing file is never replaced.

    \b
    Example:
      lace key new me.key
    """
    made = SigningKey.generate()
    write_key(file, made)
    click.echo(made.verifier)


@key.command("show")
@click.argument("file")
def show(file: str) -> None:
    """Print the verifier of the key in FILE (- reads the secret from standard input).

    \b
    Example:
      lace key show me.key
    """
    click.echo(read_key(file).verifier)
