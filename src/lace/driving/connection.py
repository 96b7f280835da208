"""One connection, without any input or output: whoever has bytes to carry drives it.

    connection = Connection.over(endpoint, module, answers)
    loop:
        send connection.data_to_send()
        tell the application connection.events()
        if connection.ended:     stop
        if connection.has_work:  connection.work(now), and begin again
        on bytes:    connection.receive_data(data, now)
        on the end:  connection.receive_eof(now)
        after connection.timer.seconds:  connection.receive_timer(connection.timer, now)

A connection that ``hands_out`` leaves it to others to validate and store what comes, and takes more
meanwhile: run each of connection.jobs() in any thread, and then connection.receive_done(job, now).

Where answers wait for another process, connection.errand is what they wait for. The next call of
``work`` waits with them, so that a driver that has better to do waits for it before.

No call waits for anything but the records of this side. None of them looks at records while there
is something to send: the peer need not wait for that, and would take it for silence if it took
long. Calls may come from any thread, one at a time. Two laces of one process need no bytes between
them: ``Connection(side, answers)`` hands over what it says by ``sent`` and takes what the other one
says by ``receive``; it never has work left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from lace.answering.answers import Answers
from lace.driving.journal import Journal
from lace.driving.saving import Job, Saving, saved
from lace.errors import Code, LaceError, StoreError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.phases import Phase
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.foreign import Job as Errand
from lace.policy.module import PolicyModule
from lace.stream.binding import Binding, Endpoint, not_stored
from lace.tai import Tai

if TYPE_CHECKING:  # a page has no server, and nothing that only a server needs
    from lace.driving.unison import Turn, Unison, Voice

MakeAnswers = Callable[[Side], Answers]
ModuleFor = Callable[[Verifier], PolicyModule]
"""Says what to exchange with a peer, once it is known who that is."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Time that may pass before ``receive_timer``; a timer that was replaced does nothing."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Bytes of the peer, which become inputs when they are looked at."""

    inputs: Iterator[m.Input]
    size: int


@dataclass(slots=True, eq=False)
class _Asked:
    """The answer to a question, as it is given part by part."""

    question: m.Question
    given: Iterator[m.Input | Errand]
    is_begun: bool = False
    is_at_hand: bool = False
    """Whether nobody has to wait for what is left of it."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> m.Input | Errand:
        self.is_begun = True
        given = next(self.given)
        if not isinstance(given, Errand):
            self.is_at_hand |= not (isinstance(given, m.Evaluated) and given.more)
        return given


_LEAST: Final = 64  # what an input without bytes of its own counts in a turn


def _size(given: m.Input | _Chunk) -> int:
    """Return how many bytes of the peer this holds until it was looked at."""
    match given:
        case _Chunk():
            return given.size
        case m.PeerFacts() | m.PeerModule():
            return len(given.content)
        case m.PeerRecord():
            return len(given.raw)
    return 0


class Connection:
    """One side of one exchange, with everything it needs but a way to carry bytes."""

    def __init__(
        self,
        side: Side,
        answers: MakeAnswers,
        *,
        binding: Binding | None = None,
        module_for: ModuleFor | None = None,
        journal: Journal | None = None,
        hands_out: bool = False,
        unison: Unison | None = None,
    ) -> None:
        self.side = side
        self.hands_out = hands_out
        """Whether validating and storing is left to whoever drives this."""
        self.machine = InterlaceMachine(side)
        self.ended: m.Closed | m.Aborted | None = None
        """How the exchange ended; None while it goes on."""
        self.is_left = False
        """Whether the peer sends no more bytes than wait to be handed over here."""
        self.memory = 0
        """About how many bytes are held: what waits, facts, and tables."""
        self.memory_apart = 0
        """The same without tables, which connections share."""
        self._make_answers = answers
        self._answers: Answers | None = None
        self._binding = binding
        self._module_for = module_for
        self._journal = journal
        self._came: deque[m.Input | _Chunk] = deque()  # what the machine is to be given next
        self._due: deque[Iterator[m.Input | Errand]] = deque()  # answers, which go before that
        self._errand: Errand | None = None
        self._unkept: deque[m.Remember] = deque()
        self._waits = True  # whether records may be looked at in this call
        self._jobs: list[Job] = []
        self._sent: list[m.Outgoing] = []
        self._pieces: list[bytes] = []
        self._has_records = False  # among what is to be sent
        self._refusals: set[Code] = set()  # that the peer was told of
        self._events: list[m.Event] = []
        self._timer: Timer | None = None
        self._timers = 0
        self._counts_silence = False
        self.voice: Voice | None = None
        """What goes on in unison with other connections; whoever makes the answers tells it."""
        if binding is not None and unison is not None and journal is None:
            self.voice = unison.voice(self.machine, binding)
        if binding is not None:
            self._pieces.append(binding.greeting())
            self._set_timer(m.SetTimer(side.limits.phase_timeout))
        if journal is not None:
            journal.begin(side)

    @classmethod
    def over(
        cls,
        endpoint: Endpoint,
        module: PolicyModule,
        answers: MakeAnswers,
        *,
        base: Side | None = None,
        limits: Limits = DEFAULT_LIMITS,
        module_for: ModuleFor | None = None,
        journal: Journal | None = None,
        hands_out: bool = False,
        unison: Unison | None = None,
    ) -> Connection:
        """Return a connection that speaks in bytes; call ``data_to_send`` for its first ones."""
        binding = Binding(endpoint, limits)
        side = binding.side(module, base)
        return cls(
            side, answers, binding=binding, module_for=module_for, journal=journal,
            hands_out=hands_out, unison=unison,
        )  # fmt: skip

    # --- what comes ---

    def receive_data(
        self, data: bytes, now: Tai, most: int | None = None, *, waits: bool = True
    ) -> None:
        """Take bytes of the peer, cut anywhere.

        With ``most``, only about so many of them are looked at before ``work`` is called again.
        Unless it ``waits``, whatever has to look at records is left to ``work``, too; what is known
        without a look is answered at once.
        """
        if self.is_left:
            self._go_alone()  # what is said of it depends on who still needs it
        left = data if self.voice is None else self.voice.hear(data, now, self._say)
        if left is not None:
            self._came.append(_Chunk(self._inputs(left), len(left)))
            self.work(now, most, waits=waits)
        else:
            self._say_in_unison()

    def _inputs(self, data: bytes) -> Iterator[m.Input]:
        """Yield what bytes amount to, each when the one before was dealt with."""
        binding = self._bytes
        met, silent = binding.has_met, True
        for given in binding.inputs(data):
            if binding.has_met and not met:
                met = True
                yield m.Started(binding.nonces)
            silent = False
            yield given
        if binding.has_met and not met:
            yield m.Started(binding.nonces)
        if silent:
            yield m.PeerAlive()

    def receive_eof(self, now: Tai, *, waits: bool = True) -> None:
        """Take note that the peer sends no more bytes, in order or not."""
        self.is_left = True
        self._go_alone()
        self._came.append(_Chunk(self._end(), 0))
        self.work(now, waits=waits)

    def _end(self) -> Iterator[m.Input]:
        """Yield what the end amounts to, when all bytes before it were looked at."""
        yield self._bytes.end()

    def receive_failure(self, failed: m.StreamFailed, now: Tai) -> None:
        """Take note that the stream failed, by no fault of its bytes."""
        self._give(failed, now)

    def receive_timer(self, timer: Timer, now: Tai) -> None:
        """Take note that a timer has run out; while there is work, nobody waits for the peer."""
        if timer == self._timer and not self.has_work and not self._saving:
            self._give(m.TimerFired(), now)

    def receive(self, said: m.Incoming, now: Tai) -> None:
        """Take what a peer in this process said, as it is."""
        self._give(said, now)

    def start(self, now: Tai) -> None:
        """Begin with a peer in this process; over bytes the peer's first ones begin it."""
        self._give(m.Started(), now)

    def lose(self, now: Tai, *, orderly: bool = False) -> None:
        """Take note that a peer in this process is gone."""
        self._give(m.PeerGone(orderly), now)

    def tell(self, order: m.Order, now: Tai, *, waits: bool = True) -> None:
        """Say something to this side: wake, change the selector, close."""
        voice = self.voice
        apart = voice is None or not voice.is_at_rest or self.is_left
        if voice is None or apart or not isinstance(order, m.Woken):
            self._give(order, now, waits=waits)
        elif voice.begin(now) and voice.hear(b"", now, self._say) is None:
            self._say_in_unison()
        else:
            self._came.append(order)
            self.work(now, waits=waits)

    def receive_done(
        self,
        job: Job,  # noqa: ARG002 (it knows what it found)
        now: Tai,
        most: int | None = None,
    ) -> None:
        """Take note that a job is done, and go on as ``work`` does."""
        self.work(now, most)

    @property
    def has_work(self) -> bool:
        """Whether to call ``work`` as soon as what there is to send was sent."""
        return bool(self._came or (self._due and not self._is_moot)) and not self._is_held_up

    @property
    def _is_moot(self) -> bool:
        """Whether nobody is there any more to whom an answer matters; what came goes before it."""
        return self.is_left and self.machine.needs_peer

    @property
    def is_full(self) -> bool:
        """Whether to hand over nothing more of the peer's before another job is done."""
        return bool(self._came) and self._is_held_up

    @property
    def needs_records(self) -> bool:
        """Whether what ``work`` does next looks at records; else it reads what came."""
        return bool(self._due) and not self._is_saving and not self._is_moot

    def work(self, now: Tai, most: int | None = None, *, waits: bool = True) -> None:
        """Go on until nothing is left to do, or until there is something to send before that.

        With ``most``, the call ends after about so many bytes of the peer, so that others can have
        their turn, and before any of them while there are records to send.
        """
        taken, self._waits = 0, waits
        while self.has_work:
            if not self._due or self._is_saving or self._is_moot:
                if most is not None and (taken >= most or self._has_records):
                    break
                given = self._next_input()
                if given is not None:
                    taken += max(_LEAST, _size(given))
                    self._step(given, now)
            elif not self._is_at_hand and (self._pieces or not waits):
                break
            elif (answer := self._next_answer()) is not None:
                if isinstance(answer, Errand):
                    self._errand = answer
                    break
                self._step(answer, now)
            else:
                self._due.popleft()
        self._close_call()

    @property
    def errand(self) -> Errand | None:
        """What the next answer waits for; nobody else need do it, and ``work`` waits for it."""
        return self._errand

    @property
    def _is_at_hand(self) -> bool:
        """Whether the next answer is there without a look at records."""
        due = self._due[0]
        if not isinstance(due, _Asked) or self._answers is None:
            return False
        if not due.is_begun and (found := self._answers.at_hand(due.question)) is not None:
            due.given, due.is_begun, due.is_at_hand = iter(found), True, True
        return due.is_at_hand

    def _next_answer(self) -> m.Input | Errand | None:
        if self._errand is not None:
            errand, self._errand = self._errand, None
            errand.wait()
        return next(self._due[0], None)

    def _next_input(self) -> m.Input | None:
        """Return what the machine is to be given next, or None if some bytes were used up."""
        first = self._came[0]
        if not isinstance(first, _Chunk):
            self._came.popleft()
            return first
        given = next(first.inputs, None)
        if given is None:
            self._came.popleft()
        return given

    # --- what goes ---

    def jobs(self) -> list[Job]:
        """Return what there is to do besides, each once; any thread may do it, in any order."""
        jobs, self._jobs = self._jobs, []
        return jobs

    def refuse(self, code: Code) -> None:
        """Tell a peer that speaks in bytes why nothing more of it is stored; each reason once."""
        if code not in self._refusals:
            self._refusals.add(code)
            self._pieces.append(not_stored(code))

    def data_to_send(self) -> list[bytes]:
        """Return the bytes to be sent next, in pieces; each piece ends where an item ends."""
        self._has_records = False
        pieces, self._pieces = self._pieces, []
        return pieces

    def sent(self) -> list[m.Outgoing]:
        """Return what was said since the last time, for a peer in this process."""
        sent, self._sent = self._sent, []
        return sent

    def events(self) -> list[m.Event]:
        """Return what happened since the last time."""
        events, self._events = self._events, []
        return events

    @property
    def timer(self) -> Timer | None:
        """The time that may pass; another value after a call means that it begins anew."""
        return self._timer

    @property
    def idle(self) -> bool:
        """Whether a fixed point was reached, and nothing has happened since."""
        is_under_way = self.voice is not None and self.voice.is_under_way
        return self.machine.phase is Phase.IDLE and not is_under_way

    @property
    def closed(self) -> bool:
        return self.machine.phase is Phase.CLOSED

    @property
    def phases_sent(self) -> int:
        return self._bytes.phases_sent

    @property
    def phases_received(self) -> int:
        return self._bytes.phases_received

    @property
    def answers(self) -> Answers:
        """Who answers for this side; made when it is first asked."""
        if self._answers is None:
            self._answers = self._make_answers(self.side)
        return self._answers

    # --- doing what the machine asks for ---

    def _give(self, given: m.Input, now: Tai, *, waits: bool = True) -> None:
        self._go_alone()
        self._came.append(given)
        self.work(now, waits=waits)

    def _go_alone(self) -> None:
        """Have the machine know all that was heard in unison with others."""
        if self.voice is not None and (left := self.voice.leave()):
            self._came.append(_Chunk(self._inputs(left), len(left)))

    def _say_in_unison(self) -> None:
        """End a call in which the machine was given nothing; what is held is counted at rest."""
        if self.voice is not None and self.voice.is_at_rest:
            self._close_call()
        else:
            self._count_silence()

    def _say(self, turn: Turn) -> None:
        """Say what another connection has said at this point, and tell what it told."""
        self._pieces += turn.said
        self._events += turn.events
        if turn.timer is not None:
            self._set_timer(turn.timer)

    def _note(
        self,
        given: m.Input,
        effects: Sequence[m.Effect] = (),
        said: Sequence[bytes] = (),
    ) -> None:
        if self.voice is not None:
            self.voice.note(given, effects, said)

    def _step(self, given: m.Input, now: Tai) -> None:
        """Hand the machine an input, and do what it asks for; answers are given later."""
        effects = self.machine.receive(given, now)
        if self._journal is not None:
            self._journal.step(given, now, effects)
        if not effects and not isinstance(given, m.PeerProven | m.PeerAlive):
            self._note(given)
            return  # one of many records; the others may let a proof go that waits
        said: list[m.Outgoing] = []
        for effect in effects:
            answer = self._do(effect, said)
            if answer is not None:
                self._due.append(answer)
        if self._binding is None:
            self._sent += said
        else:
            pieces = self._binding.send(said, now)
            self._note(given, effects, pieces)
            self._pieces += pieces
            self._has_records |= any(isinstance(one, m.SendRecord) for one in said)
        if self.closed:  # whatever else was asked or said, nobody waits for it
            self._due.clear()
            self._came.clear()
            self._jobs.clear()
            self._errand = None
            self._end_answers()
        elif isinstance(given, m.PeerProven):
            self._choose_module(given.verifier)
        elif self.machine.can_look_ahead:
            self._due.append(self._look_ahead())

    def _look_ahead(self) -> Iterator[m.Input]:
        """Let the machine find out something while the peer is busy; that is no answer."""
        self.machine.look_ahead()
        yield from ()

    def _do(self, effect: m.Effect, said: list[m.Outgoing]) -> Iterator[m.Input | Errand] | None:
        """Do one thing; return the answers if it was a question."""
        match effect:
            case m.SendModule() | m.SendFacts() | m.SendRecord() | m.EndPhase():
                said.append(effect)
            case m.SetTimer():
                self._set_timer(effect)
            case m.Emit():
                event = self._with_refusal(effect.event)
                self._events.append(event)
                if isinstance(event, m.Closed | m.Aborted):
                    self.ended = event
            case m.Close():
                self._timer = None
            case m.Remember():
                self._unkept.append(effect)
                if effect.link is None and not self._due:  # nothing is to be kept
                    deque(self._keep(), maxlen=0)
                else:
                    return self._keep()
            case m.Save() if self.hands_out:
                saving = Saving.of(effect, self.side)
                self._jobs += saving.validations
                return saving
            case _:
                return _Asked(effect, self._answer(effect))
        return None

    def _with_refusal(self, event: m.Event) -> m.Event:
        """Return an event with what the peer said of records that it does not store."""
        refusal = None if self._binding is None else self._binding.refusal
        if refusal is None or not isinstance(event, m.FixedPoint | m.Closed | m.Aborted):
            return event
        return replace(event, result=replace(event.result, not_stored=refusal))

    def _keep(self) -> Iterator[m.Input]:
        """Keep what the machine wants to be remembered; that may take a while, and is no answer."""
        while self._unkept:
            self.answers.remember(self._unkept.popleft())
        if not self.hands_out and self.ended is None:
            self.rest()  # nobody else would say when
        yield from ()

    def rest(self) -> None:
        """Let go of what others may wait for; to be called when both sides have rested a while."""
        if self._answers is not None and not self.closed:
            self._answers.rest()

    def _end_answers(self) -> None:
        """Close the answers, or leave that to ``work`` where nothing may be waited for."""
        closing = self._closing()
        if self._waits or (self._answers is None and not self._unkept):
            deque(closing, maxlen=0)
        else:
            self._due.append(closing)

    def _closing(self) -> Iterator[m.Input]:
        yield from self._keep()
        if self._answers is not None:
            self._answers.close()

    def _answer(self, question: m.Question) -> Iterator[m.Input | Errand]:
        """Answer a question; a failure is an answer too."""
        try:
            match question:
                case m.Evaluate():
                    yield from self.answers.evaluate(question)
                case m.Recall():
                    yield self.answers.recall(question)
                case m.Describe():
                    yield self.answers.describe(question)
                case m.Serve():
                    yield self.answers.serve(question)
                case m.Save():
                    yield from saved(question, self.side, self.answers)
        except StoreError as error:
            yield m.StoreFailed(error.code, error.message)
        except LaceError as error:
            yield m.EvaluationFailed(error.code, error.message)

    # --- what is done elsewhere ---

    @property
    def _saving(self) -> list[Saving]:
        """What is being validated and stored elsewhere."""
        return [due for due in self._due if isinstance(due, Saving) and due.is_under_way]

    @property
    def _is_saving(self) -> bool:
        """Whether the next answer is one that is made elsewhere, and not there yet."""
        due = self._due[0] if self._due else None
        return isinstance(due, Saving) and due.is_under_way

    @property
    def _is_held_up(self) -> bool:
        """Whether nothing can go on before a job is done.

        More of the peer's is taken meanwhile, up to its end of a phase, while there is room.
        """
        if not self._is_saving:
            return False
        held = sum(saving.size for saving in self._saving)
        room = held < self.side.parameters.hold_bytes
        return not (self._came and room and self.machine.hears_more)

    def _hand_out(self) -> None:
        """Have the next records stored, as soon as they are validated and it is their turn."""
        due = self._due[0] if self._due else None
        if isinstance(due, Saving):
            self._jobs += due.begin_storing(self.answers)

    def _choose_module(self, peer: Verifier) -> None:
        """Change to what is meant for this peer as soon as it has proven who it is.

        Whoever has proven nothing never gets to read what others may do.
        """
        if self._module_for is None:
            return
        module = self._module_for(peer)
        if module.id != self.side.module.id:
            self._came.appendleft(m.OperandChanged(module))

    # --- time and room ---

    def _set_timer(self, effect: m.SetTimer) -> None:
        self._timers += 1
        self._counts_silence = effect.silence
        self._timer = None if effect.seconds is None else Timer(self._timers, effect.seconds)

    def _close_call(self) -> None:
        """Count silence from here on, hand out what can be done, and say how much is held."""
        self._hand_out()
        if self.voice is not None and (self._due or not self._came):
            self.voice.close_call(is_done=not self._due)
        self._count_silence()
        own, peers = self.machine.tables
        held = self.machine.held
        held += 0 if self._answers is None else self._answers.memory
        if self._due or self._came:
            held += sum(saving.size for saving in self._saving)
            held += sum(map(_size, self._came))
        self.memory_apart = held + (0 if self._binding is None else self._binding.held)
        self.memory = self.memory_apart + own.memory + peers.memory

    def _count_silence(self) -> None:
        if self._counts_silence and self._timer is not None:
            self._timers += 1
            self._timer = Timer(self._timers, self._timer.seconds)

    @property
    def _bytes(self) -> Binding:
        assert self._binding is not None, "a connection within one process has no bytes"
        return self._binding
