"""Signing keys by name, in one file that only its owner can read, sealed with a passphrase or not.

A demo key is made from its name alone, so that examples have the same verifiers everywhere. Anyone
can make it and sign with it; it is marked, and whoever uses it is told.

Of a sealed keyring the names and verifiers can be read by its owner without the passphrase; the
secrets cannot. The passphrase comes from the environment, or from whoever is asked for it.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

from lace._version import __version__
from lace.crypto.keys import SigningKey, demo_key
from lace.crypto.sealing import METHOD, SealedText, open_text, seal_text
from lace.drafts import write_file
from lace.errors import Code, EncodingError, UsageError
from lace.ids import Verifier, is_verifier, parse_verifier
from lace.limits import FIXED
from lace.text import redact, shown

VARIABLE: Final = "LACE_KEYRING"
"""The environment variable that names another file than the usual one."""
PASSPHRASE: Final = "LACE_PASSPHRASE"  # noqa: S105 (a name)
"""The environment variable that opens a sealed keyring."""

#: Names that examples make demo keys of: under another name such a key is one all the same.
_DEMO_WORDS: Final = (
    "alice", "ann", "author", "authority", "bob", "carl", "carol", "dan", "dave", "erin", "eve",
    "home", "journal", "mallory", "notes room authority", "office", "outsider", "owner",
    "publisher", "room", "room authority", "sensor", "server", "shop", "stranger", "writer",
)  # fmt: skip

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_CONTACTS: Final = "contacts.toml"
_SEALED: Final = "sealed"
_SEALED_HEAD: Final = (
    "# Signing secrets of Lace, sealed with a passphrase. lace keyring changes it.\n"
)
_OPENED: Final[dict[tuple[SealedText, str], tuple[str, str]]] = {}
"""The text of a sealed file and its passphrase, so that both are worked on once."""
_UNWRITTEN: Final = (
    "The file is as it was. Make room on the disk, or get the right to write there, and try again."
)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_HEAD: Final = (
    "# Signing secrets of Lace: whoever can read this file can sign in your name.\n"
    "# lace keyring changes it; a key marked demo is made from its name and protects nothing.\n"
)


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key with its name."""

    name: str
    """Its name in the keyring."""
    key: SigningKey
    """The key, with its secret."""
    demo: bool = False
    """Made from its name: known to everyone."""

    @property
    def verifier(self) -> Verifier:
        """What others check its signatures by."""
        return self.key.verifier


@dataclass(frozen=True, slots=True)
class KnownKey:
    """What can be told of a key without its secret."""

    name: str
    """Its name in the keyring."""
    verifier: Verifier
    """What others check its signatures by."""
    demo: bool = False
    """Made from its name: known to everyone."""


_THIS: Final = f"Lace {__version__}"
_NEWER: Final = "A newer version may have written it: update Lace. The file was not changed."


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
            line = file.read(FIXED.key_file_bytes)
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

    ask: ClassVar[Callable[[str], str] | None] = None
    """Asks a person for the passphrase of a file; the command line gives it."""

    def __init__(self, path: str | Path | None = None, passphrase: str | None = None) -> None:
        """Stand for the keyring in a file, by default the user's own; nothing is read yet.

        Without ``passphrase`` a sealed one is opened with that of the environment.
        """
        self.path = default_path() if path is None else Path(path)
        self._passphrase = passphrase
        self._new_passphrase: tuple[str | None] = (None,)

    @property
    def is_sealed(self) -> bool:
        """Whether the secrets need a passphrase."""
        return _is_sealed(self._read_file())

    def known(self) -> list[KnownKey]:
        """Return all names with their verifiers; needs no passphrase."""
        table = self._read_file()
        if not _is_sealed(table):
            return [KnownKey(e.name, e.verifier, e.demo) for e in self.entries()]
        return [
            KnownKey(name, Verifier(verifier), name in _public(table)[1])
            for name, verifier in sorted(_public(table)[0].items())
        ]

    def find(self, name: str) -> KnownKey:
        """Return what is known of a key without its secret; needs no passphrase.

        Raises ``UsageError`` that says which names there are.
        """
        table = self._read_file()
        if not _is_sealed(table):
            found = self.get(name)
            return KnownKey(name, found.verifier, found.demo)
        names, demos = _public(table)
        if name not in names:
            raise _unknown(name, names)
        return KnownKey(name, Verifier(names[name]), name in demos)

    def entries(self) -> list[NamedKey]:
        """Return all keys, by name."""
        return [self._named(name, entry) for name, entry in sorted(self._read().items())]

    def get(self, name: str) -> NamedKey:
        """Return the key of a name, or raise ``UsageError`` that says which names there are."""
        if self.is_sealed:
            self.find(name)  # that a name is unknown is said without a passphrase
        entries = self._read()
        if name not in entries:
            raise _unknown(name, entries)
        return self._named(name, entries[name])

    def add(
        self,
        name: str,
        key: SigningKey | None = None,
        *,
        demo: bool = False,
        force: bool = False,
    ) -> NamedKey:
        """Keep a key under a new name: the one given, the demo key of that name, or a fresh one.

        A key that has a name already gets no second one, unless ``force`` says so.
        """
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
            called = {self._named(*e).verifier: e[0] for e in entries.items()}
            if key.verifier in called and not force:
                raise named_already(key.verifier, called[key.verifier])
            demos = {self._named(*e).verifier for e in entries.items() if self._named(*e).demo}
            is_demo = key.verifier in demos or is_demo_key(key, name)
            entries[name] = {"secret": key.reveal()} | ({"demo": True} if is_demo else {})
        return NamedKey(name, key, is_demo)

    def rename(self, name: str, new: str) -> NamedKey:
        """Keep a key under another name, which no key has; what it is stays so."""
        if not is_key_name(new):
            raise UsageError(f"{shown(new)} cannot name a key", code=Code.KEY_NAME)
        with self._changing() as entries:
            if name not in entries:
                self.get(name)
            if new in entries:
                raise UsageError(f"a key called {new} is there already", code=Code.KEY_NAME)
            found = self._named(name, entries.pop(name))
            entries[new] = _entry(found)
        return NamedKey(new, found.key, found.demo)

    def seal(self, passphrase: str | None) -> None:
        """Seal the file with a passphrase from now on, or with None no longer."""
        if passphrase is not None:
            _check_passphrase(passphrase)
        with self._changing():
            self._new_passphrase = (passphrase,)

    def backup(self, path: Path, passphrase: str) -> int:
        """Write all keys into a new file, sealed with a passphrase; return how many."""
        _check_passphrase(passphrase)
        entries = self.entries()
        text = _sealed_text(entries, passphrase)
        try:
            write_file(path, text, overwrite=False, mode=0o600)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", code=Code.INPUT_FILE
            ) from None
        return len(entries)

    def restore(self, path: Path, passphrase: str | None = None) -> list[str]:
        """Take over the keys of a backup that are not here; return their names.

        A name that means another key here stops it before anything is changed.
        """
        taken = Keyring(path, passphrase)
        if not path.exists():
            raise UsageError(f"there is no {path}", code=Code.INPUT_FILE)
        backed_up = {entry.name: entry for entry in taken.entries()}
        with self._changing() as entries:
            for name in sorted(set(backed_up) & set(entries)):
                if self._named(name, entries[name]).verifier != backed_up[name].verifier:
                    raise UsageError(
                        f"{name} is another key here than in {path}",
                        code=Code.KEY_NAME,
                        hint=f"Give the one here another name: lace keyring rename {name} NEW",
                    )
            fresh = sorted(set(backed_up) - set(entries))
            entries.update({name: _entry(backed_up[name]) for name in fresh})
        return fresh

    def remove(self, name: str) -> NamedKey:
        """Forget a key for ever, and return it."""
        with self._changing() as entries:
            if name not in entries:
                self.get(name)
            return self._named(name, entries.pop(name))

    # --- the file ---

    def _named(self, name: str, entry: Any) -> NamedKey:
        if not (is_key_name(name) and isinstance(entry, dict)):
            self._refuse(f"the entry {shown(name)} is not a key")
        if more := sorted(set(entry) - {"secret", "demo"}):
            self._refuse(
                f"the entry {shown(name)} has {shown(more[0])}, which {_THIS} does not know", _NEWER
            )
        try:
            key = SigningKey.from_secret_text(str(entry.get("secret", "")))
        except EncodingError:
            self._refuse(f"the entry {shown(name)} holds no signing secret")
        # What is a demo key is so by its secret; a missing mark does not make it safe.
        is_demo = entry.get("demo") is True or is_demo_key(key, name)
        return NamedKey(name, key, is_demo)

    def _read(self) -> dict[str, Any]:
        """Return the entries; those of a sealed file are opened."""
        table = self._read_file()
        if not _is_sealed(table):
            return table
        return self._open(table)

    def _open(self, table: dict[str, Any]) -> dict[str, Any]:
        if table[_SEALED] != METHOD:
            self._refuse(
                f"it is sealed by {shown(table[_SEALED])}, which {_THIS} does not know", _NEWER
            )
        box, public = _box_of(table), _public_text(*_public(table))
        if box is None:
            self._refuse("its seal is malformed")
        known = (box, public)
        if known not in _OPENED or self._passphrase not in {None, _OPENED[known][1]}:
            words = self._secret_words()
            text = open_text(box, words, public)
            _OPENED.clear()  # of one keyring at a time
            _OPENED[known] = text, words
        text, self._passphrase = _OPENED[known]  # words that opened it are those that seal it again
        return tomllib.loads(text)

    def _secret_words(self) -> str:
        """Return the passphrase: as given, of the environment, or of whoever is asked."""
        if self._passphrase is None:
            self._passphrase = os.environ.get(PASSPHRASE)
        if self._passphrase is None and Keyring.ask is not None:
            self._passphrase = Keyring.ask(f"Passphrase of {self.path}")
        if self._passphrase is None:
            raise UsageError(f"keyring {self.path} is sealed", code=Code.KEY_SEALED)
        return self._passphrase

    def _read_file(self) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    self._refuse("it is not a file")
                if os.name == "posix" and mode & _OTHERS:
                    self._refuse("it can be read by others", f"Run: chmod 600 {self.path}")
                content = file.read(FIXED.settings_bytes + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._refuse(f"it cannot be read: {error.strerror}")
        if len(content) > FIXED.settings_bytes:
            self._refuse(f"it is larger than {FIXED.settings_bytes} bytes")
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
                words = self._secret_words() if self.is_sealed else None
                self._new_passphrase = (words,)
                yield entries
                (words,) = self._new_passphrase
                known = [self._named(name, entry) for name, entry in entries.items()]
                text = _text(entries) if words is None else _sealed_text(known, words)
                # Where a link leads, and not in its place.
                write_file(self.path.resolve(), text, overwrite=True, mode=0o600)
                self._passphrase = words
        except OSError as error:
            self._refuse(f"it cannot be written: {error.strerror}", _UNWRITTEN)

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
                content = file.read(FIXED.settings_bytes + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._refuse(f"it cannot be read: {error.strerror}")
        if len(content) > FIXED.settings_bytes:
            self._refuse(f"it is larger than {FIXED.settings_bytes} bytes")
        try:
            entries = tomllib.loads(content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self._refuse(f"it is not TOML: {error}")
        for name, verifier in entries.items():
            if not (is_key_name(name) and isinstance(verifier, str) and is_verifier(verifier)):
                self._refuse(f"the entry {shown(name)} is not a name with a verifier")
        return dict(sorted(entries.items()))

    def add(self, name: str, verifier: str, *, force: bool = False) -> None:
        """Give a verifier a name that nobody else has, in the keyring or among the contacts.

        A verifier that has a name already gets no second one, unless ``force`` says so.
        """
        if not is_key_name(name):
            raise UsageError(f"{shown(name)} cannot be a name", code=Code.KEY_NAME)
        parse_verifier(verifier)
        known = Keyring(self.path.with_name(default_path().name)).known()
        keys = {entry.name: entry.verifier for entry in known}
        with self._changing() as entries:
            if name in keys or entries.get(name, verifier) != verifier:
                raise UsageError(
                    f"{name} is somebody else already",
                    code=Code.KEY_NAME,
                    hint="A name means one verifier: choose another, or remove it first.",
                )
            others = [one for one, whose in (keys | entries).items() if whose == verifier]
            if name not in entries and others and not force:
                raise named_already(verifier, others[0])
            entries[name] = Verifier(verifier)

    def remove(self, name: str) -> Verifier:
        """Forget a name, and return whose it was."""
        with self._changing() as entries:
            if name not in entries:
                known = ", ".join(entries) or "none yet"
                raise UsageError(
                    f"no contact is called {shown(name)}; there are: {known}",
                    code=Code.KEY_UNKNOWN,
                    hint="See the names with 'lace contact list'.",
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
                text = "".join(["# Names of other people. lace contact changes it.\n", *lines])
                # Where a link leads, as the keyring beside it.
                write_file(self.path.resolve(), text, overwrite=True, mode=0o600)
        except OSError as error:
            self._refuse(f"it cannot be written: {error.strerror}", _UNWRITTEN)

    def _refuse(self, what: str, hint: str = "") -> NoReturn:
        raise UsageError(f"contacts {self.path}: {what}", code=Code.KEY_FILE, hint=hint)


def _unknown(name: str, names: Iterable[str]) -> UsageError:
    """Return the error for a name that no key has."""
    known = ", ".join(sorted(names)) or "none yet"
    return UsageError(
        f"no key is called {shown(name)}; there are: {known}",
        code=Code.KEY_UNKNOWN,
        hint=f"Make one: lace keyring new {name}" if is_key_name(name) else "",
    )


def named_already(verifier: str, name: str) -> UsageError:
    """Return the error for a second name of one verifier."""
    return UsageError(
        f"{verifier} is called {name} already",
        code=Code.KEY_NAME,
        hint=f"Use {name}, or give it a second name on purpose: --force.",
    )


def _check_passphrase(words: str) -> None:
    """Raise ``UsageError`` if a new passphrase is too short to keep anybody out."""
    least = FIXED.passphrase_characters
    if len(words) < least:
        raise UsageError(
            f"a passphrase has at least {least} characters, and this one has {len(words)}",
            code=Code.KEY_SEALED,
            hint="Take a longer one, such as several words that have little to do with each other.",
        )


def is_demo_key(key: SigningKey, name: str) -> bool:
    """Whether a key is one that anybody can make: of its name, or of a name in examples."""
    return key.verifier in _demo_verifiers() or key.verifier == demo_key(name).verifier


@cache
def _demo_verifiers() -> frozenset[Verifier]:
    return frozenset(demo_key(words).verifier for words in _DEMO_WORDS)


def _is_sealed(table: Mapping[str, Any]) -> bool:
    return isinstance(table.get(_SEALED), str)  # a key of that name would be a table


def _entry(named: NamedKey) -> dict[str, Any]:
    return {"secret": named.key.reveal()} | ({"demo": True} if named.demo else {})


def _public(table: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return what a sealed file says in the clear: verifiers by name, and which are demo keys."""
    names, demos = table.get("verifiers"), table.get("demo", [])
    if not isinstance(names, dict) or not isinstance(demos, list):
        return {}, []
    good = {n: v for n, v in names.items() if is_key_name(n) and isinstance(v, str)}
    return {n: v for n, v in good.items() if is_verifier(v)}, [d for d in demos if d in good]


def _public_text(names: Mapping[str, str], demos: Iterable[str]) -> str:
    lines = [f'{name} = "{names[name]}"\n' for name in sorted(names)]
    marks = ", ".join(f'"{name}"' for name in sorted(demos))
    return f"demo = [{marks}]\n\n[verifiers]\n{''.join(lines)}"


def _box_of(table: Mapping[str, Any]) -> SealedText | None:
    numbers = {name: table.get(name) for name in ("memory_kib", "passes", "lanes")}
    texts = {name: table.get(name) for name in ("salt", "box")}
    if not all(type(n) is int for n in numbers.values()):
        return None
    if not all(isinstance(text, str) for text in texts.values()):
        return None
    return SealedText(**numbers, **texts)  # type: ignore[arg-type]


def _sealed_text(known: Iterable[NamedKey], passphrase: str) -> str:
    """Return the text of a sealed file: names and verifiers in the clear, secrets in the box."""
    known = sorted(known, key=lambda named: named.name)
    public = _public_text({k.name: k.verifier for k in known}, [k.name for k in known if k.demo])
    box = seal_text(_text({k.name: _entry(k) for k in known}), passphrase, public)
    head = "".join(
        f"{name} = {value}\n"
        for name, value in (
            (_SEALED, f'"{METHOD}"'), ("memory_kib", box.memory_kib), ("passes", box.passes),
            ("lanes", box.lanes), ("salt", f'"{box.salt}"'), ("box", f'"{box.box}"'),
        )
    )  # fmt: skip
    return f"{_SEALED_HEAD}{head}{public}"


def _text(entries: Mapping[str, Any]) -> str:
    parts = [_HEAD]
    for name, entry in sorted(entries.items()):
        mark = "demo = true\n" if entry.get("demo") else ""
        parts.append(f'\n[{name}]\nsecret = "{entry["secret"]}"\n{mark}')
    return "".join(parts)


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
