"""Checking what a store keeps of links: against itself, and against the records that are here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from lace import b64a
from lace.answering.memory import Known, is_whole, read_known
from lace.interlace.partition import STANDARD_PREFIX
from lace.recordstore.base import LinkMemory
from lace.recordstore.sqlite import SqliteStore

_AT_ONCE: Final = 500
_BEGINNING: Final = 10  # letters of a link's name


def link_faults(store: SqliteStore) -> Iterator[str]:
    """Yield what is wrong with what is kept of links, or by it with the records.

    What was kept by another version is passed over, as exchanges do.
    """
    for key in store.links():
        kept = store.link(key)
        if kept is None:
            continue  # another process has let go of it
        try:
            fault = _fault(store, kept)
        finally:
            kept.close()
        if fault is not None:
            yield f"link {b64a.encode(key)[:_BEGINNING]}: {fault}"


def _fault(store: SqliteStore, kept: LinkMemory) -> str | None:
    known = read_known(kept, STANDARD_PREFIX)
    if known is None:
        return None
    if not is_whole(kept, STANDARD_PREFIX):
        return "what is kept of it is damaged"
    if not known.witness.is_borne_out(store, known.position):
        return "what is kept of it belongs to other records than those that are here"
    lost = _lost(store, known)
    return f"{lost} of its records are gone, and nobody has forgotten them" if lost else None


def _lost(store: SqliteStore, known: Known) -> int:
    """Return how many records were advertised that are not here, and were not forgotten since."""
    told, missing = known.state.own.records(""), set[str]()
    with store.snapshot() as snapshot:
        while some := list(islice(told, _AT_ONCE)):
            missing |= set(some) - snapshot.present(some)
    forgotten = store.forgotten(known.position.forgets) if missing else []
    return 0 if forgotten is None else len(missing.difference(forgotten))
