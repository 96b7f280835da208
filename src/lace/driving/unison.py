"""Exchanges that stand alike go on in unison: one finds out what to say, the others say it too.

Members of a crowd that have come to rest mostly hear and say the same when something is stored. So
what one of them heard and said is kept, turn by turn, from one rest to the next: a *passage*. The
next one that stands alike says the same as long as its peer says the same and as long as nothing
is stored or forgotten meanwhile; its machine is handed nothing. If its peer says anything else, the
machine is handed what it has missed, and goes on by itself. At the end of a passage a machine
stands as the one does that went through it (L72).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from lace.answering.crowd import Crowd
from lace.answering.member import Heard
from lace.answering.store import StoreAnswers
from lace.interlace import messages as m
from lace.interlace.machine import InterlaceMachine
from lace.interlace.partition import Partitions
from lace.interlace.phases import Phase
from lace.interlace.rest import Rest, Standing, is_of_one_connection
from lace.limits import FIXED
from lace.stream.binding import Binding
from lace.tai import Tai

_INPUT_BYTES: Final = 500  # of one input, beside the bytes of the peer
_ENTRY_BYTES: Final = 200  # of one record in an answer, and its digests


@dataclass(slots=True, eq=False)
class Turn:
    """What a peer says up to the end of a phase, and what is said to it then."""

    heard: bytes = b""
    inputs: list[m.Input] = field(default_factory=list)
    """What the machine was given, answers included."""
    said: list[bytes] = field(default_factory=list)
    events: list[m.Event] = field(default_factory=list)
    timer: m.SetTimer | None = None
    ends: tuple[int, int] = (0, 0)
    """How many phases this side and the peer have ended by its end."""
    told: Heard | None = None
    """How far the answers have heard their crowd by its end."""
    is_apart: bool = False
    """Whether anything in it is a matter of one connection."""

    @property
    def is_over(self) -> bool:
        """Whether the peer has ended a phase, or did not have to say anything."""
        return bool(self.ends[1]) or any(isinstance(given, m.Woken) for given in self.inputs)

    @property
    def comes_to_rest(self) -> bool:
        """Whether a fixed point was reached."""
        return any(isinstance(event, m.FixedPoint) for event in self.events)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.heard) + sum(map(len, self.said)) + sum(map(_size, self.inputs))

    def is_like(self, other: Turn) -> bool:
        """Whether the same was heard and said."""
        return (self.heard, b"".join(self.said)) == (other.heard, b"".join(other.said))


@dataclass(slots=True, eq=False)
class Passage:
    """What is heard and said from one rest to the next, as far as any exchange has come."""

    turns: list[Turn] = field(default_factory=list)
    end: Rest | None = None
    """How machines stand at its end; None while nobody was there."""
    size: int = 0
    lock: Lock = field(default_factory=Lock)
    """Several threads may find out the same."""

    @property
    def memory(self) -> int:
        """About how many bytes it takes, with the tables of its end."""
        end = self.end
        return self.size + (0 if end is None else end.own.memory + end.peers.memory)

    def take(self, at: int, turn: Turn) -> bool:
        """Take the turn with a number; return False if it is another one, or if it has no room."""
        with self.lock:
            if at < len(self.turns):
                return self.turns[at].is_like(turn)
            if self.end is not None or self.size + turn.size > FIXED.passage_bytes:
                return False
            self.size += turn.size
            self.turns.append(turn)
            return True


@dataclass(slots=True, eq=False)
class _Passages:
    """The passages of a crowd that begin where it has told something last."""

    begin: Heard
    by_standing: OrderedDict[tuple[Standing, bool], Passage] = field(default_factory=OrderedDict)
    """With whether lines go packed: what was said is kept as bytes."""


class Unison:
    """The passages of all crowds."""

    def __init__(self) -> None:
        self._passages: WeakKeyDictionary[Crowd, _Passages] = WeakKeyDictionary()

    def voice(self, machine: InterlaceMachine, binding: Binding) -> Voice:
        """Return the part of one more exchange."""
        return Voice(self, machine, binding)

    @property
    def memory(self) -> int:
        """About how many bytes they take."""
        return sum(passage.memory for passage in self._kept())

    @property
    def memory_apart(self) -> int:
        """The same without tables, which exchanges share."""
        return sum(passage.size for passage in self._kept())

    @property
    def tables(self) -> list[Partitions]:
        """The tables at the ends of passages."""
        ends = [passage.end for passage in self._kept()]
        return [table for end in ends if end is not None for table in (end.own, end.peers)]

    def _kept(self) -> list[Passage]:
        kept = [passages.by_standing.values() for passages in self._passages.values()]
        return [passage for some in kept for passage in some]

    def clear(self) -> None:
        """Keep none; who is in one goes through it alone."""
        self._passages.clear()

    def passage(
        self, crowd: Crowd, begin: Heard, standing: Standing, *, packs: bool
    ) -> Passage | None:
        """Return the passage of a crowd from here; those that began earlier are dropped."""
        known = self._passages.get(crowd)
        if known is None or known.begin.turn() is not begin.turn():
            known = self._passages[crowd] = _Passages(begin)
        if known.begin.forgets != begin.forgets:
            return None  # what was forgotten meanwhile is news to one of them only
        passage = known.by_standing.setdefault((standing, packs), Passage())
        while len(known.by_standing) > FIXED.kept_passages:
            known.by_standing.popitem(last=False)
        return passage


class Voice:
    """One exchange's part: it says what others have said before, or finds out what to say.

    While it finds that out, everything that its machine is given has to pass through ``note``, and
    each call of its connection has to end with ``close_call``.
    """

    def __init__(self, unison: Unison, machine: InterlaceMachine, binding: Binding) -> None:
        self.answers: StoreAnswers | None = None
        """Who answers for this side, when they are made."""
        self._unison = unison
        self._machine = machine
        self._binding = binding
        self._standing: Standing | None = None  # of a machine at rest, if others may stand like it
        self._passage: Passage | None = None
        self._at = 0  # the next turn of it
        self._worked = 0  # the next turn that the machine was not handed
        self._unheard = b""  # of that turn, what the peer has said so far
        self._now: Tai | None = None  # when it was last heard or woken in a passage
        self._open: Turn | None = None  # that is being found out
        self._heard = bytearray()  # what belongs to it and to what follows
        self._offset = 0  # in the peer's stream, of the first byte of that

    @property
    def is_at_rest(self) -> bool:
        """Whether it stands like others may stand, at a fixed point."""
        return self._standing is not None

    @property
    def is_under_way(self) -> bool:
        """Whether a round goes on of which the machine, which is idle, knows nothing yet."""
        if self._passage is None or self._at == self._worked:
            return False
        return not self._passage.turns[self._at - 1].comes_to_rest

    def begin(self, now: Tai) -> bool:
        """Leave rest, because there may be news; return whether it is known what to say."""
        standing, self._standing = self._standing, None
        crowd = None if self.answers is None else self.answers.crowd
        heard = None if self.answers is None else self.answers.heard()
        if standing is None or crowd is None or heard is None:
            return False
        packs = self._binding.packs
        self._passage = self._unison.passage(crowd, heard, standing, packs=packs)
        self._at = self._worked = 0
        self._now = now
        if self._passage is None:
            return False
        if not self._passage.turns:
            self._find_out(b"")
            return False
        self._machine.leave_rest(now)
        return True

    def hear(self, data: bytes, now: Tai, say: Callable[[Turn], None]) -> bytes | None:
        """Say what others have said who heard this; return what the machine has to look at."""
        if self._open is not None:
            self._heard += data
        if self._passage is None or self._open is not None:
            self._standing = None
            return data
        passage, data, self._unheard = self._passage, self._unheard + data, b""
        if not self._machine.has_time(now):
            self.leave()
            return data
        self._now = now
        seen: Heard | None = None  # the last look at the store in this call, after all that came
        while self._at < len(passage.turns):
            turn = passage.turns[self._at]
            if turn.heard.startswith(data) and len(data) < len(turn.heard):
                self._unheard = data
                return None
            if not data.startswith(turn.heard) or not self._pass(turn, seen):
                self.leave()
                return data
            seen = turn.told
            say(turn)
            data = data[len(turn.heard) :]
            if passage.end is not None and self._at == len(passage.turns):
                self._come_to_rest(passage.end)
                self._standing = None if data else self._standing
                return data or None
            if not data:
                return None
        self._catch_up()
        self._find_out(data)
        return data

    def leave(self) -> bytes:
        """Go on alone; return what was heard and not looked at."""
        unheard, self._unheard = self._unheard, b""
        if self._passage is not None and self._open is None:
            self._catch_up()
        self._passage = self._open = self._standing = None
        return unheard

    # --- what others have found out ---

    def _pass(self, turn: Turn, seen: Heard | None) -> bool:
        """Go through a turn if the answers are the same now; return whether they are.

        If the same was ``seen`` since the peer has said this, nobody looks again.
        """
        told, answers = turn.told, self.answers
        if told is None or answers is None:
            return False
        again = seen is not None and seen.turn is told.turn
        if not answers.take_heard(told, is_current=again):
            return False
        self._binding.pass_over(turn.heard, turn.ends)
        self._at += 1
        return True

    def _come_to_rest(self, rest: Rest) -> None:
        if self._worked:
            self._catch_up()  # it has left rest, and gets there by itself
        else:
            self._machine.stand_as(rest)
        assert self.answers is not None
        self.answers.let_go()
        self._standing, self._passage = rest.standing, None
        self._at = self._worked = 0

    def _catch_up(self) -> None:
        """Hand the machine what it has missed; what it asks for and says is known already."""
        assert self._passage is not None
        assert self._now is not None
        for turn in self._passage.turns[self._worked : self._at]:
            for given in turn.inputs:
                self._machine.receive(given, self._now)  # time was counted as it passed
        self._worked = self._at

    # --- finding out ---

    def _find_out(self, heard: bytes) -> None:
        """Begin with turns that nobody has had; ``heard`` is what the machine gets to hear now."""
        self._open, self._heard = Turn(), bytearray(heard)
        self._offset = self._binding.offset

    def note(self, given: m.Input, effects: Sequence[m.Effect], said: Sequence[bytes]) -> None:
        """Take note of what the machine was given, and of what came of it."""
        if self._open is None:
            return
        if self._open.is_over and isinstance(given, m.FromPeer):
            if self._open.comes_to_rest or not self._keep(self._open):
                self.leave()
                return
            self._open = Turn()
        turn = self._open
        turn.inputs.append(given)
        turn.said += said
        turn.events += [effect.event for effect in effects if isinstance(effect, m.Emit)]
        timers = [effect for effect in effects if isinstance(effect, m.SetTimer)]
        turn.timer = timers[-1] if timers else turn.timer
        apart = isinstance(given, m.Saved) or is_of_one_connection(given)
        turn.is_apart |= apart or any(map(is_of_one_connection, effects))
        ended = sum(isinstance(effect, m.EndPhase) for effect in effects)
        turn.ends = turn.ends[0] + ended, turn.ends[1]
        if isinstance(given, m.PeerPhaseEnd):
            size = self._binding.offset - self._offset
            turn.heard, self._heard = bytes(self._heard[:size]), self._heard[size:]
            self._offset += size
            turn.ends = turn.ends[0], 1

    def close_call(self, *, is_done: bool) -> None:
        """Keep a turn that is over; at a fixed point, take note of how the machine stands."""
        if self._open is not None:
            if not is_done or not self._go_on(self._open):
                self.leave()
        elif self._passage is None and self._standing is None and is_done:
            self._standing = None if self._cannot_rest else self._machine.standing()

    @property
    def _cannot_rest(self) -> bool:
        """Whether it is plain that nobody else stands like this."""
        alone = self.answers is None or self.answers.crowd is None
        return alone or self._binding.has_remarks or not self._binding.is_between_phases

    def _go_on(self, turn: Turn) -> bool:
        """Keep a turn if it is over, and come to rest if the machine did; return False if alone."""
        passage = self._passage
        assert passage is not None
        if not turn.is_over:
            return True
        if not self._keep(turn):
            return False
        self._open = Turn() if self._heard else None
        if self._machine.phase is not Phase.IDLE:
            return True
        rest = None if self._heard or self._cannot_rest else self._machine.rest()
        if rest is None or self._at < len(passage.turns):
            return False
        passage.end = passage.end or rest
        self._passage, self._standing = None, passage.end.standing
        return self._standing == rest.standing

    def _keep(self, turn: Turn) -> bool:
        """Keep a turn that is over for others; return whether it may go on in unison."""
        passage, answers = self._passage, self.answers
        assert passage is not None
        turn.told = None if answers is None else answers.heard()
        is_apart = turn.is_apart or self._binding.has_remarks
        if turn.told is None or is_apart or self._machine.phase is Phase.CLOSED:
            return False
        if not passage.take(self._at, turn):
            return False
        self._at = self._worked = self._at + 1
        return True


def _size(given: m.Input) -> int:
    """Return about how many bytes an input takes, beside those of the peer."""
    if not isinstance(given, m.Evaluated):
        return _INPUT_BYTES
    told = given.sendable, given.unsendable, given.requestable, given.unrequestable
    return _INPUT_BYTES + _ENTRY_BYTES * (sum(map(len, told)) + len(given.forgotten))
