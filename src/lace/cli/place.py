"""Where commands work: the lace that is meant, and what flags say instead of its settings.

It is the path given by --lace, else the nearest folder with settings, from the present one upwards.
A path may also be a store file alone; then there are no settings, and flags say everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lace.api.handles import Lace, Peer, connect, set_known_as, store_of
from lace.api.handles import open as open_lace
from lace.cli.arguments import read_own_verifier, read_signing_key, read_verifier
from lace.cli.output import echo
from lace.crypto.keys import SigningKey
from lace.errors import Code, UsageError
from lace.ids import Verifier
from lace.keyring import is_key_name
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.recordstore.sqlite import SqliteStore
from lace.settings import (
    FILE,
    STORE,
    Settings,
    check_store,
    load,
    located,
    read_exposure,
    read_selector,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A lace with its settings; a flag goes before what they say."""

    settings: Settings

    @classmethod
    def nowhere(cls) -> Place:
        """Return no lace: for what needs none, such as asking a peer."""
        return cls(Settings(folder=Path(), store=Path(STORE)))

    def open(
        self,
        key: SigningKey | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        known_as: Verifier | None = None,
    ) -> Lace:
        """Open the lace; a record of it that was changed is told of when it is found.

        ``known_as`` is whom rules take it for where it has no key to prove it with.
        """
        opened = open_lace(self.settings.store, key=key, limits=limits)
        if known_as is not None:
            set_known_as(opened, known_as)
        store = store_of(opened)
        if isinstance(store, SqliteStore):
            store.on_quarantine = partial(_tell_quarantine, store.path)
        return opened

    def signing_key(self, text: str | None, *, warns: bool = True) -> SigningKey | None:
        """Return the key of a flag, else the one of the settings, else None."""
        meant = self._key(text)
        return None if meant is None else read_signing_key(meant, warns=warns)

    def verifier(self, text: str | None = None) -> Verifier | None:
        """Return the verifier of the same key, which needs no passphrase."""
        meant = self._key(text)
        return None if meant is None else read_own_verifier(meant)

    def _key(self, text: str | None) -> str | None:
        named = self.settings.key
        if text is not None or named is None:
            return text
        return named if is_key_name(named) else str(self.settings.folder / named)

    def module(self, text: str | None) -> PolicyModule:
        """Return the selector of a flag or argument, else the one of the settings."""
        if text is None:
            return self.settings.module()
        return read_selector(text, parameters=self.settings.parameters)

    def exposure(self, choices: tuple[str, ...]) -> Exposure:
        """Return the exposure of flags, else the one of the settings."""
        if not choices:
            return self.settings.exposure()
        return read_exposure(choices, parameters=self.settings.parameters)

    def peer(
        self,
        text: str,
        *,
        expect: str | None = None,
        trust: str | None = None,
        key: SigningKey | None = None,
    ) -> Peer:
        """Return the peer of a name in the settings, or of an address."""
        known = self.settings.peers.get(text)
        if expect is not None:
            expect = read_verifier(expect, "--expect")
        if known is None:
            return connect(text, expected=expect, trust=trust, key=key)
        where = None if known.trust is None else str(self.settings.folder / known.trust)
        return connect(
            known.address, expected=expect or known.expect, trust=trust or where, key=key
        )


def _tell_quarantine(store: Path, hash: str) -> None:
    code = Code.STORE_QUARANTINE
    echo(f"lace: {store}: {hash}: {code.meaning} [{code}]\n  {code.fix}", err=True)


def find(where: str | None) -> Place:
    """Return the lace that --lace names, or the nearest one from here upwards."""
    if where is None:
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / FILE).is_file():
                return Place(_with_store(load(folder)))
        raise UsageError("there is no lace here", code=Code.SETTINGS_MISSING)
    path = Path(where)
    folder_of_it = located(path)
    if folder_of_it is not None:
        return Place(_with_store(load(folder_of_it)))
    if not path.exists():
        raise UsageError(f"{path} does not exist", code=Code.SETTINGS_MISSING)
    return Place(_with_store(Settings(folder=path.parent, store=path)))


def _with_store(settings: Settings) -> Settings:
    """Return settings whose store is there, or raise ``StoreError``."""
    check_store(settings.store)
    return settings
