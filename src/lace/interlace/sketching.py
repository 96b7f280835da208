"""The talk about sketches in one loop: by it two sides find out how their tables differ.

The side with the larger table asks for cells of the other one's sketch until it knows the
difference. Then it asks for the advertisements that it lacks, and lists those that only it has if
the other side waits for them. So both know both tables, and hold them against the digests that were
told. Whatever goes wrong on the way, the tables are found out by partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lace import b64a
from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import EncodingError, LimitExceeded, ProtocolError
from lace.interlace.facts import decimal
from lace.interlace.partition import Partitions
from lace.interlace.sketch import CELL_BYTES, MOST_CELLS, Decoder, Difference, Names

ASKS: Final = frozenset(("SketchAdvertisements", "ListAdvertisementItems"))
_CELLS_AT_ONCE: Final = 56  # a value of a fact has at most 1,024 bytes
_ITEMS_AT_ONCE: Final = 90
_NAME_BYTES: Final = 8
_ITEM_BYTES: Final = 300  # of a name and its record, as Python holds them


@dataclass(slots=True)
class Sketching:
    """What is asked, answered and found out by sketches on one side in one loop."""

    key: bytes
    column: int
    """Which digest of an entry is that of operand 0's advertisement: both sides go by it."""
    own: Partitions
    most: int
    """Most cells of a sketch, as both sides agreed; 0 for none."""
    most_listed: int = MOST_CELLS
    """Most advertisements that either side lists; a difference of more is found by partitions."""
    _names: Names | None = None
    _asked_for: dict[int, str] = field(default_factory=dict)
    """Records of this side by the names by which the peer asks for them."""
    # What the peer asks.
    _given: int = 0
    """So many cells were given."""
    _peer_has_waited: bool = False
    """It said so in this loop."""
    _peer_waits: bool = False
    """For this side, which asks for cells: a peer that is asked for none goes on by itself."""
    _peer_asked: bool = False
    """Since this side last looked."""
    _peer_ever_asked: bool = False
    _peer_lacks: set[str] | None = None
    # What this side asks.
    _is_on: bool = False
    _decoder: Decoder | None = None
    _have: int = 0
    """So many cells have come."""
    _asked: int = 0
    """So many were asked for."""
    _found: Difference | None = None
    _to_list: list[str] = field(default_factory=list)
    missing: set[str] | None = None
    """What the peer does not have of this side's table, once that is known."""

    # --- asking ---

    @property
    def is_on(self) -> bool:
        """Whether this side goes by sketches, and is not through."""
        return self._is_on

    def begin(self, count: int, *, decodes: bool) -> list[Fact]:
        """Return the first question about a table of so many records."""
        self._is_on, self._peer_asked = True, False  # what it asked before is no reason to wait
        if not decodes:
            return [("SketchAdvertisements", "0", "0")]
        return self._decode(count)

    def _decode(self, count: int) -> list[Fact]:
        names = self._own_names()
        differ = abs(count - len(names))
        self._decoder = Decoder(names, None, most=self.most, at_least=differ)
        return self._ask_for_cells()

    def _ask_for_cells(self) -> list[Fact]:
        assert self._decoder is not None
        wanted = self._decoder.wanted()
        if wanted is None:
            return self._give_up()
        self._asked = wanted
        return [("SketchAdvertisements", str(self._have), str(wanted))]

    def _give_up(self) -> list[Fact]:
        self._is_on = False
        return []

    def take(self, facts: list[Fact], count: int) -> list[Fact]:
        """Take the peer's answers about its table of so many records; return what to ask next."""
        asked, self._peer_asked = self._peer_asked, False
        check_asked(facts, self._asked - self._have)
        if self._decoder is None:
            return self._wait(count, asked=asked)
        if self._found is not None:  # and now the peer has listed what this side lacks
            self.missing, self._is_on = set(self._to_list), False
            return []
        cells = sorted(_cells(facts))
        for start, content in cells:
            self._decoder.add(start, content)
            self._have += len(content) // CELL_BYTES
        found = self._decoder.decode()
        if found is None:
            return self._ask_for_cells() if cells else self._give_up()
        if max(len(found.ours), len(found.theirs)) > self.most_listed:
            return self._give_up()
        here = self._own_names().find(found.ours | found.theirs)
        if here.keys() != found.ours:  # cells that lie
            return self._give_up()
        self._found, self._asked = found, self._have
        self._to_list = sorted(here.values())
        return list(_items(sorted(found.theirs)))

    def _wait(self, count: int, *, asked: bool) -> list[Fact]:
        """Wait for the peer to find out the difference; if it does not, find it out here."""
        if self._peer_lacks is not None:
            self.missing, self._is_on = self._peer_lacks, False
        elif not self._peer_ever_asked:
            return self._decode(count)
        elif not asked:
            return self._give_up()
        return []

    # --- being asked ---

    @property
    def memory(self) -> int:
        """About how many bytes are held of what the peer asks for."""
        lacks = 0 if self._peer_lacks is None else len(self._peer_lacks)
        return (len(self._asked_for) + lacks) * _ITEM_BYTES

    def look_up(self, asks: list[Fact]) -> None:
        """Look up all that a phase asks for by name: at one go, since there may be much to read.

        Raise before that if it asks for more than there is.
        """
        texts = [ask[1] for ask in asks if ask[0] == "ListAdvertisementItems"]
        if not texts or not self.most:
            return
        if not self._given:
            raise ProtocolError("items before any cells", code=Code.INTERLACE_SUMMARY)
        most = len(self.own) - len(self._peer_lacks or ())
        if sum(_count(text, _NAME_BYTES) for text in texts) > most:
            raise ProtocolError("more items than are left", code=Code.INTERLACE_SUMMARY)
        names = [name for text in texts for name in _cut(text)]
        self._asked_for = self._own_names().find(names) if names else {}

    def answer(self, ask: Fact) -> tuple[list[Fact], list[str]]:
        """Return cells, or records whose advertisements are to be listed."""
        if not self.most:
            raise ProtocolError("nobody offered sketches", code=Code.INTERLACE_PHASE)
        if ask[0] == "ListAdvertisementItems":
            return [], self._list(ask[1])
        first, last = decimal(ask[1]), decimal(ask[2])
        if first == last == 0:
            if self._peer_has_waited:
                raise ProtocolError("a question asked twice", code=Code.INTERLACE_PHASE)
            self._peer_has_waited = True
            self._peer_waits = self._decoder is not None  # else it does not wait any longer
            return [], []
        if first is None or last is None or first != self._given or last <= first:
            raise ProtocolError("cells out of order", code=Code.INTERLACE_SUMMARY)
        if last > min(self.most, MOST_CELLS):
            raise LimitExceeded("max_cells_in_sketch", configured=self.most, observed=last)
        self._given, self._peer_asked, self._peer_ever_asked = last, True, True
        cells = self._own_names().cells(first, last)
        size = _CELLS_AT_ONCE * CELL_BYTES
        return [
            (
                "AdvertisementSketch",
                str(first + at // CELL_BYTES),
                b64a.encode(cells[at : at + size]),
            )
            for at in range(0, len(cells), size)
        ], []

    def _list(self, text: str) -> list[str]:
        """Return the records that a peer lacks, by their names."""
        found = list(map(self._asked_for.get, _cut(text)))
        lacks = self._peer_lacks or set()
        records = {record for record in found if record is not None}
        if None in found:
            raise ProtocolError("items that are not advertised here", code=Code.INTERLACE_SUMMARY)
        if len(records) != len(found) or not records.isdisjoint(lacks):
            raise ProtocolError("an item asked for twice", code=Code.INTERLACE_SUMMARY)
        self._peer_lacks = lacks | records
        if len(self._peer_lacks) > self.most_listed:
            limit, observed = "max_advertisement_records_listed", len(self._peer_lacks)
            raise LimitExceeded(limit, configured=self.most_listed, observed=observed)
        self._peer_asked = True
        return sorted(records)

    def listed_unasked(self) -> list[str]:
        """Return what only this side has, once, if the peer waits for it and it is known."""
        if not self._peer_waits or self._found is None:
            return []
        listed, self._peer_waits = self._to_list, False
        return listed

    # --- names ---

    def _own_names(self) -> Names:
        if self._names is None:
            self._names = self.own.names(self.key, self.column)
        return self._names


def check_asked(facts: list[Fact], most: int = 0) -> None:
    """Raise if an answer has more cells than were asked for, before any is decoded."""
    cells = [fact[2] for fact in facts if fact[0] == "AdvertisementSketch"]
    if cells and not most:
        raise ProtocolError("cells nobody asked for", code=Code.INTERLACE_SUMMARY)
    if sum(_count(text, CELL_BYTES) for text in cells) > most:
        raise ProtocolError("more cells than were asked for", code=Code.INTERLACE_SUMMARY)


def _cells(facts: list[Fact]) -> Iterator[tuple[int, bytes]]:
    for fact in facts:
        if fact[0] == "AdvertisementSketch":
            start = decimal(fact[1])
            if start is None:
                raise ProtocolError("cells of no place", code=Code.INTERLACE_SUMMARY)
            yield start, _decoded(fact[2])


def _items(names: list[int]) -> Iterator[Fact]:
    """Yield names as facts; at least one, which says that all is found."""
    for at in range(0, max(1, len(names)), _ITEMS_AT_ONCE):
        some = names[at : at + _ITEMS_AT_ONCE]
        text = b"".join(name.to_bytes(_NAME_BYTES, "big") for name in some)
        yield "ListAdvertisementItems", b64a.encode(text)


def _count(text: str, size: int) -> int:
    """Return how many things of a size the bytes are that a text stands for, undecoded."""
    return len(text) * 6 // 8 // size


def _cut(text: str) -> list[int]:
    """Return the names that a text has, one after another."""
    names = _decoded(text)
    if len(names) % _NAME_BYTES:
        raise ProtocolError("an item that is no name", code=Code.INTERLACE_SUMMARY)
    starts = range(0, len(names), _NAME_BYTES)
    return [int.from_bytes(names[at : at + _NAME_BYTES], "big") for at in starts]


def _decoded(text: str) -> bytes:
    try:
        return b64a.decode(text)
    except EncodingError as error:
        raise ProtocolError(error.message, code=Code.INTERLACE_SUMMARY) from None
