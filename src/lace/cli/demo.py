"""``lace demo``: a notes room between two processes over TCP, one of them killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import click

from lace import blocking
from lace.cli.exitcodes import Exit
from lace.cli.output import echo
from lace.clock import tai_now
from lace.crypto.keys import demo_key
from lace.keyring import VARIABLE, Keyring
from lace.record import build_plex, seal
from lace.record.model import Record
from lace.rooms import Room
from lace.tai import Tai

_PLACE: Final = "//notes-demo//notes//"
_NOTES: Final = 2500
_UNTIL_KILLED: Final = 300
_SECONDS: Final = 60
_F_SETPIPE_SZ: Final = 1031  # Linux


class _NotAsExpected(Exception):
    """The demo did not show what it is there to show."""


@click.command()
@click.option("--keep", metavar="FOLDER", help="Leave everything in FOLDER to look at.")
def demo(keep: str | None) -> int:
    """Run a notes room between two processes over TCP; kill one on the way; watch them converge.

    Everything that is run is printed. Nothing is left behind unless --keep says so.

    \b
    Example:
      lace demo
      lace demo --keep /tmp/room
    """
    with _folder(keep) as folder:
        os.environ[VARIABLE] = str(folder / "keyring.toml")
        try:
            _Demo(folder).run()
        except _NotAsExpected as error:
            echo(f"\nlace: the demo went wrong: {error}", err=True)
            return Exit.BAD_INPUT
    return Exit.OK


class _Demo:
    """The story, step by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.bob, self.mallory = map(demo_key, ("authority", "bob", "mallory"))
        self.module = Room(prefix=_PLACE, authority=self.authority.verifier).module

    def run(self) -> None:
        _title("A room: the authority admits members, and what members sign belongs")
        for name in ("authority", "alice", "bob"):
            Keyring().add(name, demo=True)
        for name in ("bob", "alice"):
            self._lace("init", name, "--key", name, "--select", _PLACE, "--room", "authority")
        grants, notes, stray = self._records()
        with blocking.open(self.folder / "bob" / "records.lace") as local:
            blocking.store(local, [*grants, *notes, stray])
        _say(
            f"bob now has 2 grants, {len(notes):,} notes of his own, and 1 that mallory slipped in"
        )

        with self._serving() as address:
            _title("Alice starts with nothing, follows bob's process, and is killed on the way")
            self._follow_and_kill(address)
            had = self._count("alice")
            _check(0 < had < len(notes), f"alice has {had} records after the kill")
            _say(f"kill -9: alice's process is gone; {had:,} whole, valid records stayed with her")

            _title("Offline she writes a note of her own; then she connects again")
            mine = self._add_note()
            result = self._sync(address)
            wanted = len(grants) + len(notes)
            _check(result["received"] == wanted - had, "only what was missing is received")
            _check(result["sent"] == 1, "her own note is sent")
            again = self._sync(address, quiet=True)
            _check((again["received"], again["sent"]) == (0, 0), "nothing is left to exchange")

        _title("Both have converged, and each record can say why")
        sets = [self._hashes(name) for name in ("alice", "bob")]
        _check(sets[0] == sets[1], "both sides select the same records")
        _check(len(sets[0]) == wanted + 1, "all of them are there")
        _say(f"alice and bob each select the same {len(sets[0]):,} records")
        self._explain(notes[0], mine, stray)

    # --- the parts ---

    def _records(self) -> tuple[list[Record], list[Record], Record]:
        now = tai_now()

        def plex(app: str, name: str, text: str, **fields: str) -> Record:
            signer = {"notes/member": self.authority}.get(app, self.bob)
            made = build_plex(
                group="notes-demo", app=app, name=name, tai=Tai(now),
                extras=list(fields.items()), data=text.encode(),
            )  # fmt: skip
            return seal(made, self.mallory if name.startswith("mallory") else signer)

        members = {"bob": self.bob, "alice": demo_key("alice")}
        grants = [
            plex("notes/member", f"member/{name}", "grant", Member=key.verifier, Role="writer")
            for name, key in members.items()
        ]
        notes = [
            plex("notes/message", f"bob/{number}", f"Note {number}. " + "And so on. " * 30)
            for number in range(_NOTES)
        ]
        return grants, notes, plex("notes/message", "mallory/1", "Let me in.")

    @contextmanager
    def _serving(self) -> Iterator[str]:
        """Run bob's server in a process of its own; yields its address."""
        arguments = ("serve", "bob", "tcp:127.0.0.1:0")
        _show(arguments, " &")
        process = subprocess.Popen(  # noqa: S603 (our own command)
            _command(arguments), cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        try:
            yield _address(process.stderr)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def _follow_and_kill(self, address: str) -> None:
        """Follow in a process of its own, and kill it when it has told of some records.

        It tells of each record through a small pipe that is not read to the end, so that it cannot
        be done before it is killed, however fast the machine is.
        """
        arguments = ("follow", address, "--lace", "alice")
        _show(arguments)
        process = subprocess.Popen(  # noqa: S603 (our own command)
            _command(arguments), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        try:
            with suppress(OSError, ImportError):
                import fcntl

                fcntl.fcntl(process.stdout, _F_SETPIPE_SZ, 4096)
            for number, line in enumerate(process.stdout):
                if number < 3:
                    _say(line.decode().strip())
                if number == _UNTIL_KILLED:
                    break
        finally:
            process.kill()
            process.communicate()

    def _add_note(self) -> str:
        text = ("--text", "Written on a train.")
        done = self._lace("add", "//notes-demo//notes/message//alice/1", *text, "--lace", "alice")
        return done.strip()

    def _sync(self, address: str, *, quiet: bool = False) -> dict[str, int]:
        told = self._lace("sync", address, "--lace", "alice", quiet=True)
        events = [json.loads(line) for line in told.splitlines()]
        result: dict[str, int] = next(e for e in events if e["event"] == "fixed-point")
        if quiet:
            _say(f"once more: {result['received']} received, {result['sent']} sent")
        else:
            came = f"{result['received']:,} records ({result['bytes_received']:,} bytes)"
            went = f"{result['sent']} ({result['bytes_sent']:,} bytes)"
            _say(f"received {came}, sent {went}, in {result['loops']} loops")
        return result

    def _explain(self, note: Record, mine: str, stray: Record) -> None:
        entry = self._why("why", note.hash, "alice")
        _check(entry["allowed"] is True, "bob's note belongs")
        _say(f"bob's note {note.hash} came because of")
        for rule in entry["rules"]:
            _say(f"  {rule['rule']}")
        for hash in entry["evidence"]:
            _say(f"  and the record {hash}, the grant that admits him")
        entry = self._why("why", mine, "bob")
        _check(entry["allowed"] is True, "alice's note reached bob")
        entry = self._why("why-not", stray.hash, "bob")
        _check(entry["allowed"] is False, "mallory's note does not belong")
        failed = entry["refusals"][0]["failed_atom"]
        failing = [step["layer"] for step in entry["steps"] if step["passed"] is False]
        _say(f"mallory's note {stray.hash} never left: {failing[0]}, no {failed} for its signer")

    def _why(self, command: str, hash: str, where: str) -> dict[str, Any]:
        _show((command, hash, "--lace", where))
        done = self._process((command, hash, "--lace", where))
        _check(done.returncode in {Exit.OK, Exit.NOT_FOUND}, done.stderr.decode())
        made: dict[str, Any] = json.loads(done.stdout)
        return made

    # --- running ---

    def _count(self, name: str) -> int:
        return len(self._hashes(name))

    def _hashes(self, name: str) -> set[str]:
        """Return what a lace selects by the rules of the room."""
        with blocking.open(self.folder / name / "records.lace") as local:
            return {record.hash for record in blocking.list(local, self.module)}

    def _lace(self, *arguments: str, quiet: bool = False) -> str:
        _show(arguments)
        done = self._process(arguments)
        _check(done.returncode == Exit.OK, done.stderr.decode())
        if not quiet:
            for line in done.stdout.decode().splitlines():
                _say(line)
        return done.stdout.decode()

    def _process(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: S603 (our own command)
            _command(arguments),
            cwd=self.folder,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "lace", *arguments]


def _address(log: IO[bytes] | None) -> str:
    assert log is not None
    for line in log:
        with suppress(ValueError):
            entry = json.loads(line)
            if entry.get("event") == "listening":
                return str(entry["address"])
    raise _NotAsExpected("the server does not listen")


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is not None:
        path = Path(keep)
        path.mkdir(parents=True)  # what is there already is not touched
        yield path.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="lace-demo-") as name:
        yield Path(name)


def _title(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _show(arguments: tuple[str, ...], end: str = "") -> None:
    words = [f'"{word}"' if " " in word else word for word in arguments]
    echo(f"  $ lace {' '.join(words)}{end}")


def _say(text: str) -> None:
    echo(f"    {text}")


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise _NotAsExpected(what)
