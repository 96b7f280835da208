"""Signing keys by name, in one file that only its owner can read.

A demo key is made from its name alone, so that examples have the same verifiers everywhere. Anyone
can make it and sign with it; it is marked, and whoever uses it is told.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from lace.crypto.keys import SigningKey, demo_key
from lace.errors import Code, EncodingError, UsageError
from lace.ids import Verifier, is_verifier, parse_verifier
from lace.text import redact, shown

VARIABLE: Final = "LACE_KEYRING"
"""The environment variable that names another file than the usual one."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILE_BYTES: Final = 1 << 20
KEY_FILE_BYTES: Final = 4096
_CONTACTS: Final = "contacts.toml"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_HEAD: Final = (
    "# Signing secrets of Lace: whoever can read this file can sign in your name.\n"
    "# lace keyring changes it; a key marked demo is made from its name and protects nothing.\n"
)


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key with its name."""

    name: str
    key: SigningKey
    demo: bool = False
    """Made from its name: known to everyone."""

    @property
    def verifier(self) -> Verifier:
        return self.key.verifier


def is_key_name(text: str) -> bool:
    """Whether a text can name a key; what has a dot or a slash is a file, never a name."""
    return _NAME.fullmatch(text) is not None


def read_key_file(name: str) -> SigningKey:
    """Return the key in a file that only its owner can read."""
    try:
        with Path(name).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise UsageError(f"{name} is not a file", code=Code.KEY_FILE)
            if os.name == "posix" and mode & _OTHERS:
                raise UsageError(
                    f"{name} can be read by others",
                    code=Code.KEY_FILE,
                    hint=f"Run: chmod 600 {name}",
                )
            line = file.read(KEY_FILE_BYTES)
    except OSError as error:
        hint = "Give the name of a file that holds the secret." if name.startswith("&.") else ""
        message = f"cannot read {redact(name)}: {error.strerror}"
        raise UsageError(message, code=Code.INPUT_FILE, hint=hint) from None
    return key_of_text(line, name)


def key_of_text(line: bytes, where: str) -> SigningKey:
    """Return the key of a secret text; the error for a bad one does not repeat it."""
    try:
        return SigningKey.from_secret_text(line.decode("ascii").strip())
    except (UnicodeDecodeError, EncodingError):
        raise UsageError(f"{where} holds no signing secret", code=Code.KEY_FILE) from None


def default_path() -> Path:
    """Return where the keyring of this user is."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "lace" / "keyring.toml"


class Keyring:
    """The keys in one file. Every call reads the file anew; a change replaces it as a whole."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path() if path is None else Path(path)

    def entries(self) -> list[NamedKey]:
        """Return all keys, by name."""
        return [self._named(name, entry) for name, entry in sorted(self._read().items())]

    def get(self, name: str) -> NamedKey:
        """Return the key of a name, or raise ``UsageError`` that says which names there are."""
        entries = self._read()
        if name not in entries:
            known = ", ".join(sorted(entries)) or "none yet"
            raise UsageError(
                f"no key is called {shown(name)}; there are: {known}",
                code=Code.KEY_UNKNOWN,
                hint=f"Make one: lace keyring new {name}" if is_key_name(name) else "",
            )
        return self._named(name, entries[name])

    def add(self, name: str, key: SigningKey | None = None, *, demo: bool = False) -> NamedKey:
        """Keep a key under a new name: the one given, the demo key of that name, or a fresh one."""
        if not is_key_name(name):
            raise UsageError(f"{shown(name)} cannot name a key", code=Code.KEY_NAME)
        with self._changing() as entries:
            if name in entries:
                raise UsageError(
                    f"a key called {name} is there already",
                    code=Code.KEY_NAME,
                    hint="A key is never overwritten: choose another name, or remove it first.",
                )
            if key is None:
                key = demo_key(name) if demo else SigningKey.generate()
            is_demo = key.verifier == demo_key(name).verifier
            entries[name] = {"secret": key.reveal()} | ({"demo": True} if is_demo else {})
        return NamedKey(name, key, is_demo)

    def remove(self, name: str) -> NamedKey:
        """Forget a key for ever, and return it."""
        with self._changing() as entries:
            if name not in entries:
                self.get(name)
            return self._named(name, entries.pop(name))

    # --- the file ---

    def _named(self, name: str, entry: Any) -> NamedKey:
        if not (is_key_name(name) and isinstance(entry, dict) and set(entry) <= {"secret", "demo"}):
            self._refuse(f"the entry {shown(name)} is not a key")
        try:
            key = SigningKey.from_secret_text(str(entry.get("secret", "")))
        except EncodingError:
            self._refuse(f"the entry {shown(name)} holds no signing secret")
        # What is a demo key is so by its secret; a missing mark does not make it safe.
        is_demo = entry.get("demo") is True or key.verifier == demo_key(name).verifier
        return NamedKey(name, key, is_demo)

    def _read(self) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    self._refuse("it is not a file")
                if os.name == "posix" and mode & _OTHERS:
                    self._refuse("it can be read by others", f"Run: chmod 600 {self.path}")
                content = file.read(_FILE_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._refuse(f"it cannot be read: {error.strerror}")
        if len(content) > _FILE_BYTES:
            self._refuse(f"it is larger than {_FILE_BYTES} bytes")
        try:
            return tomllib.loads(content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            # The parser's own message may quote the line, and the line may hold a secret.
            self._refuse("it is not TOML")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Give the entries to change, and replace the file by them; one process at a time."""
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(folder / f".{self.path.name}.lock"):
                entries = self._read()
                for name, entry in entries.items():
                    self._named(name, entry)  # what cannot be read could not be written again
                yield entries
                _replace(self.path, _text(entries))
        except OSError as error:
            self._refuse(f"it cannot be written: {error.strerror}")

    def _refuse(self, what: str, hint: str = "") -> NoReturn:
        raise UsageError(f"keyring {self.path}: {what}", code=Code.KEY_FILE, hint=hint)


class Contacts:
    """Names for the verifiers of other people, in a file beside the keyring; nothing is secret."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path().with_name(_CONTACTS) if path is None else Path(path)

    def entries(self) -> dict[str, Verifier]:
        """Return the verifiers by name, or raise ``UsageError`` if the file cannot be used."""
        try:
            with self.path.open("rb") as file:
                content = file.read(_FILE_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._refuse(f"it cannot be read: {error.strerror}")
        if len(content) > _FILE_BYTES:
            self._refuse(f"it is larger than {_FILE_BYTES} bytes")
        try:
            entries = tomllib.loads(content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self._refuse(f"it is not TOML: {error}")
        for name, verifier in entries.items():
            if not (is_key_name(name) and isinstance(verifier, str) and is_verifier(verifier)):
                self._refuse(f"the entry {shown(name)} is not a name with a verifier")
        return dict(sorted(entries.items()))

    def add(self, name: str, verifier: str) -> None:
        """Give a verifier a name that nobody else has, in the keyring or among the contacts."""
        if not is_key_name(name):
            raise UsageError(f"{shown(name)} cannot be a name", code=Code.KEY_NAME)
        parse_verifier(verifier)
        keys = {entry.name for entry in Keyring(self.path.with_name(default_path().name)).entries()}
        with self._changing() as entries:
            if name in keys or entries.get(name, verifier) != verifier:
                raise UsageError(
                    f"{name} is somebody else already",
                    code=Code.KEY_NAME,
                    hint="A name means one verifier: choose another, or remove it first.",
                )
            entries[name] = Verifier(verifier)

    def remove(self, name: str) -> Verifier:
        """Forget a name, and return whose it was."""
        with self._changing() as entries:
            if name not in entries:
                known = ", ".join(entries) or "none yet"
                raise UsageError(
                    f"no contact is called {shown(name)}; there are: {known}", code=Code.KEY_UNKNOWN
                )
            return entries.pop(name)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Verifier]]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(self.path.with_name(f".{self.path.name}.lock")):
                entries = self.entries()
                yield entries
                lines = [f'{name} = "{entries[name]}"\n' for name in sorted(entries)]
                _replace(
                    self.path,
                    "".join(["# Names of other people. lace contact changes it.\n", *lines]),
                )
        except OSError as error:
            self._refuse(f"it cannot be written: {error.strerror}")

    def _refuse(self, what: str) -> NoReturn:
        raise UsageError(f"contacts {self.path}: {what}", code=Code.KEY_FILE)


def _text(entries: Mapping[str, Any]) -> str:
    parts = [_HEAD]
    for name, entry in sorted(entries.items()):
        mark = "demo = true\n" if entry.get("demo") else ""
        parts.append(f'\n[{name}]\nsecret = "{entry["secret"]}"\n{mark}')
    return "".join(parts)


def _replace(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    fresh = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        fresh.unlink()  # left by a process that died; we hold the lock
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, where the system has such locks."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        try:
            import fcntl
        except ImportError:  # Windows: the last change wins
            pass
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
