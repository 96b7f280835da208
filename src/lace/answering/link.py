"""One link in one epoch: how it stood, what was said of records since, and how it is kept.

Of what the peer said since, this has the names of records. Whoever answers has the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from lace.answering.following import Position, Witness
from lace.answering.memory import Known, change_of, changed_texts, is_whole, read_known
from lace.datalog.source import Fact
from lace.errors import StoreError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, gather
from lace.interlace.facts import read_block
from lace.interlace.partition import Partitions
from lace.interlace.runs import Packed
from lace.policy.origin import SourceLabel
from lace.recordstore.base import LinkMemory, RecordStore


@dataclass(slots=True)
class Link:
    """What is known of a link, and what has changed since that was kept."""

    store: RecordStore
    name: bytes | None = None
    """None for an exchange of which nothing is kept."""
    basis: bytes = b""
    """A digest of everything that makes this a matter of its own: see ``basis_of``."""
    known: Known | None = None
    """How it stood when it was kept last; None if that is not known, or was of another basis."""
    listed: set[str] = field(default_factory=set)
    """Records whose advertisements are known by the peer's words: kept, or heard in this epoch."""
    touched: set[str] = field(default_factory=set)
    """Records whose advertisements, on either side, have changed since it was kept."""
    told_first: Packed = field(default_factory=Packed)
    """Records that may be sent by the first answer about all of them, if nothing was kept and
    whoever asks holds no table that has them."""
    _memory: LinkMemory | None = None
    """What the store keeps, as long as anybody may look at it."""
    _gone_with_ours: set[str] = field(default_factory=set)
    """Advertisements of the peer that followed from records which are gone, not withdrawn yet."""
    _unkept: set[str] = field(default_factory=set)
    """Those that became so in the course of this exchange: not to be kept."""

    def recall(self, standard: int) -> m.LinkState | None:
        """Return how the link stood, if everything that it depended on is the same.

        What is not wanted any more is left out, and so is what followed from records of ours that
        are gone.
        """
        kept = None if self.name is None else self._readable(self.name, standard)
        known = None if kept is None else read_known(kept, standard)
        if kept is None or known is None or not self._is_of_here(known):
            if kept is not None:
                kept.close()
            return None
        self.known, self._memory = known, kept
        self.listed = set(known.texts)
        self._gone_with_ours = self._find_gone(known)
        state = known.state
        out = self.store.kept_out(state.wanted)
        if out:
            state = replace(state, wanted=state.wanted - out)
        if self._gone_with_ours:
            state = replace(state, peers=state.peers.copy())
            state.peers.remove(self._gone_with_ours)
        return state

    def _readable(self, name: bytes, standard: int) -> LinkMemory | None:
        """Return what the store keeps; where damage would stay, only if there is none."""
        kept = self.store.link(name)
        if kept is not None and kept.lasts and not is_whole(kept, standard):
            self._drop(name, kept)
            return None
        return kept

    def _drop(self, name: bytes, memory: LinkMemory) -> None:
        """Keep no longer what has turned out to be damaged."""
        memory.close()
        with suppress(StoreError):  # then the store ignores it
            self.store.drop_link(name, memory.head)

    def _is_of_here(self, known: Known) -> bool:
        """Whether a value is of this link and this store, and not of one that went another way."""
        return known.basis == self.basis and known.witness.is_borne_out(self.store, known.position)

    def _find_gone(self, known: Known) -> set[str]:
        """Find what followed from records of ours, and does not any more when they are gone."""
        peers, lost = known.state.peers, self.store.forgotten(known.position.forgets)
        doubtful = peers.records("") if lost is None else lost  # None: too long ago to say
        return {
            hash
            for hash in doubtful
            if hash in peers and hash not in known.texts and not self.store.has(RecordHash(hash))
        }

    def remembered(
        self,
        asked: m.Evaluate,
        source: SourceLabel,
        describe: Callable[[Sequence[str], SourceLabel], Iterator[Advertisement]],
    ) -> Iterator[Fact]:
        """Yield the facts of what the peer advertised when the link was kept last."""
        if self.known is None:
            return
        withdrawn, texts = set(asked.withdrawn), self.known.texts
        for record, text in texts.items():
            if record not in withdrawn:
                for advert in gather(read_block(text), source).values():
                    yield from advert.facts()
        if not asked.plan.adverts_stand_alone:
            alike = [
                record
                for record in self.known.state.peers.records("")
                if record not in withdrawn and record not in texts
            ]
            for advert in describe(alike, source):
                yield from advert.facts()

    # --- what is said since ---

    def hear(self, asked: m.Evaluate) -> m.Evaluate:
        """Note what the peer has said; return the question with all that is to be withdrawn."""
        if self._gone_with_ours:
            asked = replace(asked, withdrawn=(*asked.withdrawn, *self._gone_with_ours))
            self._gone_with_ours = set()
        self.touched.update(asked.withdrawn)
        if self.known is not None:  # else they are among those that were told
            self.touched.update(asked.adopted)
        self.listed.difference_update(asked.withdrawn)
        self.listed.update(advert.record for advert in asked.advertised)
        self.touched.update(advert.record for advert in asked.advertised)
        return asked

    def doubtful(self, own: Partitions | None) -> frozenset[str]:
        """Return records that may have been advertised, on either side, since it was kept.

        ``own`` is what this side advertised when it was asked last.
        """
        told: Iterable[str] = ()
        if own is not None and self.known is None:
            told = own.records("")
        return frozenset(chain(self.touched, self.told_first, told))

    # --- keeping ---

    def keep(
        self,
        name: bytes,
        state: m.LinkState,
        position: Position,
        runtime: bytes,
        text_of: Callable[[str, m.LinkState], bytes | None],
    ) -> Known:
        """Keep how the link stands, as one value.

        Under another name than it was recalled by nothing is kept: there it stood otherwise.
        ``text_of`` returns what the peer says of a record, nothing if that follows from what this
        side says, None if it is lost: then it is not kept, and the peer lists it again.
        """
        before, doubtful = self.known, self.touched | self._unkept
        lost: set[str] = set()
        changed: dict[str, bytes]
        if before is None:
            changed, unlike = {}, set(state.peers.unlike(state.own))
        else:
            changed = dict.fromkeys(doubtful, b"")
            unlike = state.peers.unlike_among(state.own, doubtful)
        for record in unlike:
            text = text_of(record, state)
            if text is None:
                lost.add(record)
            changed[record] = text or b""
        texts = changed_texts({} if before is None else before.texts, changed)
        state.peers.remove(lost)
        self._unkept = lost
        witness = Witness.of(self.store, position)
        made = Known(self.basis, position, runtime, state, texts, witness=witness)
        new, change = change_of(made, before)
        if not self.store.keep_link(name, change):
            new = self._keep_after_another(name, made)
        self.known, self.touched, self.told_first = new, set(), Packed()
        return new

    def _keep_after_another(self, name: bytes, made: Known) -> Known:
        """Keep a value where another exchange over the link has kept one meanwhile.

        What differs from that one is written, and all of it if it is of no use. If yet another one
        is quicker, that one stays.
        """
        kept = self.store.link(name)
        other = None if kept is None else read_known(kept, made.state.own.standard)
        try:
            is_like = other is not None and other.basis == made.basis
            new, change = change_of(made, other if is_like else None)
            self.store.keep_link(name, change)
        finally:
            if kept is not None and kept.damaged:
                self._drop(name, kept)
            elif kept is not None:
                kept.close()
        return new

    @property
    def is_whole(self) -> bool:
        """Whether everything that the peer advertises was kept."""
        return not self._unkept

    # --- what the store holds for it ---

    def hold(self) -> None:
        """Read all that is kept, whatever others may keep meanwhile."""
        if self._memory is not None:
            self._memory.hold()

    def let_go(self) -> None:
        """Read nothing any more; what has turned out to be damaged is kept no longer."""
        if self._memory is None:
            return
        memory, self._memory = self._memory, None
        assert self.name is not None
        if memory.damaged:
            self._drop(self.name, memory)
        else:
            memory.close()
