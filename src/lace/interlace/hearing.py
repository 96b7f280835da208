"""What a peer says in one phase: a block of facts, held to its place and to its size.

Advertisements need not become facts. A text that has nothing else is read at one go, wherever the
block was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import ProtocolError
from lace.interlace import messages as m
from lace.interlace.deferring import fact_count
from lace.interlace.facts import check_facts, read_block
from lace.interlace.listing import Listing, last_advert, read_listing
from lace.interlace.opening import Side
from lace.interlace.phases import OFFERED, Phases
from lace.policy.origin import SourceLabel

_FACT_BYTES: Final = 400  # what Python takes to hold one, beside its characters
_LISTED_BYTES: Final = 200  # the same of one that was read at one go


@dataclass(frozen=True, slots=True)
class Terms:
    """What a block is held to."""

    limit: Callable[[str], int]
    """Returns a limit by its name, as agreed."""
    source: SourceLabel | None
    """Whom advertisements have to name, if any can be said yet."""


@dataclass(slots=True)
class Hearing:
    """The peer's fact block of one phase, as far as it has come."""

    side: Side
    phases: Phases = field(compare=False)
    listed: Listing = field(default_factory=dict)
    """Advertisements that did not become facts."""
    _facts: list[Fact] = field(default_factory=list)
    _unread: bytes = b""
    """The last of them, until it is known that nothing more belongs to it."""
    _bytes: int = 0
    """Of the block, which is all lines of the phase."""
    _held: int = 0
    """About how many bytes it takes here, but for what is unread."""

    def begin(self) -> None:
        """Begin a phase, in which nothing was said yet."""
        self.listed, self._facts, self._held = {}, [], 0
        self._unread, self._bytes = b"", 0

    @property
    def memory(self) -> int:
        """About how many bytes are held of what was said in this phase."""
        return self._held + len(self._unread)

    def take_facts(self) -> list[Fact]:
        """Return all facts but advertisements that are listed; this phase holds no more of them."""
        facts, self._facts = self._facts, []
        return facts

    def take(self, given: m.PeerFacts | m.PeerTuples, terms: Terms) -> list[str]:
        """Take more of the block; return the ticks in it, which count at once."""
        if isinstance(given, m.PeerTuples):
            return self._take_plain(given.facts, b"", terms)
        left = self._take_listings(given.content, terms)
        if not left:
            return []
        return self._take_plain(read_block(left, self.side.limits), left, terms)

    def end(self, terms: Terms) -> list[str]:
        """Take the last advertisement of the block, which nothing follows; return its ticks."""
        rest, self._unread = self._unread, b""
        if not rest or self._take_listing(rest, terms):
            return []
        return self._take_plain(read_block(rest, self.side.limits), rest, terms)

    def _take_plain(self, facts: Sequence[Fact], content: bytes, terms: Terms) -> list[str]:
        """Take facts that came in these bytes; return the ticks among them."""
        places, counts = self.phases.facts_now({fact[0] for fact in facts})
        places -= {name for name, offer in OFFERED.items() if not terms.limit(offer)}
        check_facts(facts, places, self.side.limits)
        if not counts:
            return []
        self._take_bytes(len(content), terms)
        self._held += len(facts) * _FACT_BYTES + _as_text(content)
        self._facts += [fact for fact in facts if fact[0] != "TickReady"]
        return [fact[1] for fact in facts if fact[0] == "TickReady"]

    def _take_bytes(self, size: int, terms: Terms) -> None:
        """Hold the block to what both sides offered to take."""
        self._bytes += size
        most = terms.limit("max_fact_block_size")
        if self._bytes > most:
            raise ProtocolError(f"a block of over {most} bytes", code=Code.INTERLACE_BLOCK_SIZE)

    def _take_listings(self, content: bytes, terms: Terms) -> bytes:
        """Take advertisements where there is nothing else; return what has to be read as facts.

        A block may be cut behind any line, so that the last advertisement waits for what follows.
        """
        if not self.phases.takes_listings:
            return content
        content, self._unread = self._unread + content, b""
        last = last_advert(content)
        if last is None or not self._take_listing(content[:last], terms):
            return content
        rest = content[last:]
        if len(rest) > self.side.parameters.hold_cut_bytes:
            return rest
        self._unread = rest
        return b""

    def _take_listing(self, content: bytes, terms: Terms) -> bool:
        """Take a text that has advertisements and nothing else; return whether it was one."""
        assert terms.source is not None, "advertisements before hello"
        listed = read_listing(content, terms.source, self.side.limits)
        if listed is None or not self.listed.keys().isdisjoint(listed):
            return False
        self._take_bytes(len(content), terms)
        self.listed |= listed
        self._held += fact_count(listed) * _LISTED_BYTES + len(content)
        return True


def _as_text(content: bytes) -> int:
    """Return how many bytes Python takes for the characters of a text, cut or not."""
    if content.isascii():
        return len(content)
    text = content.decode()
    return len(text) * (4 if max(text) > "\uffff" else 2)
