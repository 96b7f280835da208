"""A live exchange as a source: what a peer sends is stored here first, then flows on in bundles.

Records go into a SQLite lace in the checkpoint before they are acknowledged, so that an exchange
that is taken up again asks for nothing twice. From there they are written into bundles, in the
order they came; the name of a bundle says which of them it holds. A stream takes the bundles.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Final

from lace.crypto.keys import SigningKey
from lace.drafts import DraftFile
from lace.driving.client import Client
from lace.driving.exchange import Exchange
from lace.errors import Code, LakeError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, MIB, Limits
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.recordstore.base import Closes, StoreRecordId
from lace.recordstore.sqlite import SqliteStore
from lace.transport.address import Address

BUNDLE_BYTES: Final = 64 * MIB
_NAME: Final = re.compile(r"(\d{12,18})-(\d{12,18})\.records")
_AT_ONCE: Final = 1000
_CLOSE_SECONDS: Final = 5.0

Ended = m.Closed | m.Aborted


@dataclass(slots=True, kw_only=True)
class LiveSource(Closes):
    """An exchange with a peer that runs beside this thread, and the bundles it fills."""

    address: Address
    checkpoint: str
    module: PolicyModule
    exposure: Exposure = field(default_factory=lambda: Exposure(default="selected"))
    key: SigningKey | None = None
    expected: Verifier | None = None
    trust: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    retry: Callable[[float, str], None] = lambda _seconds, _why: None
    """Hears how long it waits before it connects again, and why."""
    store: SqliteStore = field(init=False)
    _drained: int = field(default=0, init=False)
    _thread: Thread | None = field(default=None, init=False)
    _outcome: Future[Ended | None] = field(default_factory=Future, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _task: asyncio.Task[Ended] | None = field(default=None, init=False)
    _exchange: Exchange | None = field(default=None, init=False)
    _is_stopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if "://" in self.checkpoint:
            raise LakeError(
                f"{self.checkpoint}: what comes from a peer is kept in a file first",
                code=Code.LAKE_INPUT,
                hint="Give a checkpoint in a folder of this machine.",
            )
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.store = SqliteStore(folder.parent / "received.db")
        found = (_NAME.fullmatch(path.name) for path in folder.iterdir())
        self._drained = max((int(name[2]) for name in found if name), default=0)

    @property
    def folder(self) -> str:
        """Where bundles appear."""
        return str(Path(self.checkpoint).absolute() / "received")

    # --- the exchange ---

    def start(self) -> None:
        """Keep an open exchange going, over any number of connections, until ``stop``."""
        self._thread = Thread(target=self._work, name="lace live source", daemon=True)
        self._thread.start()

    def sync(self) -> Ended:
        """Run one exchange to its fixed point."""
        return asyncio.run(self._client().sync(self.address))

    def ended(self) -> Ended | None:
        """Return how the exchange ended; None if it still goes on, or was stopped."""
        return self._outcome.result() if self._outcome.done() else None

    def stop(self) -> None:
        """End the exchange in order; what was received stays received."""
        self._is_stopped = True
        if self._thread is None:
            return
        if self._loop is not None:
            with suppress(RuntimeError):  # it has just ended by itself
                self._loop.call_soon_threadsafe(self._ask)
        self._thread.join()

    def close(self) -> None:
        self.stop()
        self.store.close()

    def _client(self) -> Client:
        return Client(
            store=self.store, module=self.module, exposure=self.exposure, key=self.key,
            expected=self.expected, trust=self.trust, limits=self.limits,
        )  # fmt: skip

    def _work(self) -> None:
        try:
            self._outcome.set_result(asyncio.run(self._follow()))
        except asyncio.CancelledError:
            self._outcome.set_result(None)
        except BaseException as error:  # noqa: BLE001 (whoever asks how it ended gets it)
            self._outcome.set_exception(error)

    async def _follow(self) -> Ended:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(
            self._client().follow(
                self.address, listen=self._hear, begin=self._begin, retry=self.retry
            )
        )
        if self._is_stopped:
            self._task.cancel()
        return await self._task

    def _begin(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def _hear(self, event: m.Event) -> None:
        if isinstance(event, m.Closed | m.Aborted):
            self._exchange = None

    def _ask(self) -> None:
        """In the other thread: ask for the end, and do not wait for ever."""
        assert self._task is not None
        assert self._loop is not None
        if self._exchange is None:
            self._task.cancel()
        else:
            self._exchange.give(m.CloseRequested())
            self._loop.call_later(_CLOSE_SECONDS, self._task.cancel)

    # --- bundles ---

    def drain(self) -> int:
        """Write what was received since the last time into bundles; return how much that was."""
        before = written = 0
        while True:
            written += self._write_bundle()
            if written == before:
                return written
            before = written

    def _write_bundle(self) -> int:
        folder = Path(self.folder)
        first = last = count = size = 0
        # Its name will say that these need not be written again.
        draft = DraftFile(folder / "draft", overwrite=True)
        try:
            for id, raw in self._received():
                draft.file.write(raw)
                first, last = first or id, id
                count += 1
                size += len(raw)
                if size >= BUNDLE_BYTES:
                    break
            if count:
                draft.commit(folder / f"{first:012d}-{last:012d}.records")
                self._drained = last
        finally:
            draft.discard()
        return count

    def _received(self) -> Iterator[tuple[int, bytes]]:
        at = self._drained
        while found := self.store.read(StoreRecordId(at), _AT_ONCE):
            for entry in found:
                record = self.store.load(entry.hash)
                if record is not None:  # else it was forgotten just now
                    yield entry.id, record.raw
            at = found[-1].id
