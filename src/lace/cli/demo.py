"""``lace demo``: what Lace does so far, in five seconds, with nothing left behind."""

from __future__ import annotations

import click

from lace.crypto.keys import SigningKey
from lace.record import build_plex, fields, inspect_record, seal
from lace.record.inspect import Inspection
from lace.runtime.clock import tai_now


@click.command()
def demo() -> None:
    """Make a key, seal a note, break one byte of it, and check both.

    \b
    Example:
      lace demo
    """
    key = SigningKey.generate()
    click.echo("1. A new key. Its verifier is what others know it by:")
    click.echo(f"     {key.verifier}")

    note = seal(
        build_plex(
            group="notes-demo",
            app="notes/message",
            name="msg/hello",
            tai=tai_now(),
            extras=[("Title", "Hello")],
            data=b"A note that anyone can check and nobody can change.",
        ),
        key,
    )
    click.echo(f"\n2. A signed note at {note.coordinate}, {len(note.raw)} bytes:")
    click.echo(f"     {note.hash}")
    for name, _, value in fields(note):
        click.echo(f"       {name:12}{value}")

    click.echo("\n3. The note as it was sealed:")
    _report(inspect_record(note.raw))

    broken = bytearray(note.raw)
    broken[-2] ^= 1
    click.echo(f"\n4. The same note with one bit of byte {len(broken) - 2} flipped:")
    _report(inspect_record(bytes(broken)))


def _report(inspection: Inspection) -> None:
    for check in inspection.checks:
        if check.ok and (check.rule.endswith("digest") or check.rule == "signature"):
            click.echo(f"     ✓ {check.rule:12} {check.detail}")
        elif not check.ok:
            click.echo(f"     ✗ {check.rule:12} expected {check.expected}")
            click.echo(f"       {'':12} got      {check.got}")
    fault = inspection.fault
    click.echo(f"     → {f'refused: {fault.code}' if fault else 'valid'}")
