"""Every situation of a machine, and every input, given twice: what comes of it stands in a table.

The tables here are written by hand. They are not made from those in ``lace.interlace.phases``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from effort import examples
from exchanges import BOB, NOW, note
from situations import (
    MANY,
    MANY_MORE,
    WIDER,
    Half,
    Situation,
    frozen,
    meeting,
    meetings,
    situation_of,
    stories,
    wandering,
)

import lace
from lace.codes import Code
from lace.datalog.source import Fact, parse_facts
from lace.errors import LocalProtocolError, Outcome, Status
from lace.interlace import machine as machine_module
from lace.interlace import messages as m
from lace.interlace import phases as phases_module
from lace.interlace.advertise import Advertisement
from lace.interlace.facts import PREDICATES, block
from lace.interlace.machine import InterlaceMachine
from lace.interlace.phases import TRANSITIONS, Occasion, Phase, Phases
from lace.policy.origin import SourceLabel
from lace.recordstore.base import StoreRecordId

Move = tuple[Phase, Occasion, Phase]

SIDES = [(index, is_open) for index in (0, 1) for is_open in (False, True)]
NOBODYS = note(99)
PROVEN = m.PeerProven(BOB.verifier)
ANSWERS: dict[type[m.Input], m.Input] = {
    m.Evaluated: m.Evaluated(),
    m.Recalled: m.Recalled(),
    m.Described: m.Described(()),
    m.Served: m.Served((None,)),
    m.Saved: m.Saved(()),
    m.EvaluationFailed: m.EvaluationFailed(Code.LIMIT_EXCEEDED, "too much"),
    m.StoreFailed: m.StoreFailed(Code.STORE_FAILED, "no disk"),
}
FAILURES = (m.EvaluationFailed, m.StoreFailed)

ENDS: dict[str, tuple[Code, m.Blame] | m.Ending] = {
    "P": (Code.INTERLACE_PHASE, m.Blame.REMOTE),
    "H": (Code.INTERLACE_HELLO, m.Blame.REMOTE),
    "I": (Code.INTERLACE_LISTING, m.Blame.REMOTE),
    "M": (Code.INTERLACE_SUMMARY, m.Blame.REMOTE),
    "U": (Code.INTERLACE_UNASKED, m.Blame.REMOTE),
    "S": (Code.ILTP_ITEM, m.Blame.REMOTE),
    "G": (Code.INTERLACE_GONE, m.Blame.LINK),
    "T": (Code.INTERLACE_TIMEOUT, m.Blame.LINK),
    "E": (Code.LIMIT_EXCEEDED, m.Blame.LOCAL),
    "F": (Code.STORE_FAILED, m.Blame.LOCAL),
    "a": m.Ending.ASKED,
    "c": m.Ending.PEER_CLOSED,
    "f": m.Ending.FIXED_POINT,
}

# Rows: the phase; whether this side has ended it or only begun; what the peer has done in it so far
# (silent, spoke, ended); the question that the driver has to answer next; and whether such a
# situation comes in bounded exchanges, open ones, or both.
#
# Columns, by the peer's entrance: mod a module, fac facts that have their place, FAC facts that have
# none, tup TUP the same from a peer in this process, rec a record that was asked for if any was, REC
# one that was not, val VAL the same from a peer in this process, end the end of a phase, prf a proof
# of identity, ali a comment or less, err the stream failed, bye the peer went in order, cut it went
# without a word.
# By the driver's: sta started, tim the timer, wok woken, opr another operand, cls a wish to close,
# ans the answer that is due, oth each other answer, evf the evaluation failed, stf the store failed.
#
# Cells: the outcome of the input, and that of the same input given again.
#   .  accepted             >  accepted, and on to another phase     ~  passed over
#   L  begins a loop        N  begins an epoch                       -  ignored: it is over
#   !  LocalProtocolError, and nothing has changed
#   a  closed as asked      c  closed by the peer                    f  closed at a fixed point
#   other capitals: aborted, as ENDS says. A letter that comes twice had waited for the store.
TABLE = """
situation                                 due                      in       mod fac FAC tup TUP rec REC val VAL end prf ali err bye cut sta tim wok opr cls ans oth evf stf

unstarted begun silent                    -                        both     .P  ..  P-  ..  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  .!  T-  ..  ..  a-  !!  !!  !!  !!
unstarted begun spoke                     -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  .!  T-  ..  ..  a-  !!  !!  !!  !!
unstarted begun ended                     -                        both     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  >!  T-  ..  ..  a-  !!  !!  !!  !!

setup begun silent                        -                        both     .P  ..  P-  ..  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
setup begun silent passing-over           -                        open     .P  ~~  P-  ~~  P-  P-  P-  P-  P-  ~P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
setup begun silent passing-over           Recall                   open     .P  ~~  P-  ~~  P-  P-  P-  P-  P-  ~P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
setup begun silent passing-over crossing  -                        open     .P  ~~  P-  ~~  P-  P-  P-  P-  P-  ~P  P-  ..  S-  c-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
setup begun spoke                         -                        open     .P  ..  P-  ..  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
setup begun spoke                         Describe Evaluate Recall open     P-  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
setup begun spoke passing-over            -                        open     .P  ~~  P-  ~~  P-  P-  P-  P-  P-  ~P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
setup begun spoke passing-over            Recall                   open     .P  ~~  P-  ~~  P-  P-  P-  P-  P-  ~P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
setup begun ended                         Describe Evaluate Recall open     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  >!  !!  E-  F-
setup ended spoke                         -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >H  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!

hello ended silent                        -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  H-  ..  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
hello ended spoke                         -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >.  ..  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!

advertise begun silent                    Describe Evaluate Recall both     NP  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
advertise begun silent crossing           Describe                 open     NP  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  c-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
advertise begun spoke                     Describe Evaluate Recall both     P-  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
advertise begun ended                     Describe Evaluate        both     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  >!  !!  E-  F-
advertise begun ended                     Recall                   both     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
advertise ended silent                    -                        both     NP  ..  P-  ..  P-  P-  P-  P-  P-  >>  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
advertise ended silent crossing           -                        open     NP  ..  P-  ..  P-  P-  P-  P-  P-  >>  P-  ..  S-  c-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
advertise ended spoke                     -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >>  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!

ask ended silent                          -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >.  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
ask ended spoke                           -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >M  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!

answer begun silent                       Describe                 both     P-  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
answer begun spoke                        Describe                 both     P-  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
answer begun ended                        Describe                 both     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
answer ended silent                       -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  M-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
answer ended spoke                        -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >>  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!

request begun silent                      Evaluate                 both     P-  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
request begun spoke                       Evaluate                 both     P-  ..  P-  ..  P-  P-  P-  P-  P-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
request begun ended                       Evaluate                 both     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  >.  !!  E-  F-
request ended silent                      -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >>  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
request ended silent asking-nothing       -                        bounded  P-  ..  P-  ..  P-  P-  P-  P-  P-  f-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
request ended silent asking-nothing       -                        open     P-  ..  P-  ..  P-  P-  P-  P-  P-  >L  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
request ended spoke                       -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >.  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
request ended spoke asking-nothing        -                        both     P-  ..  P-  ..  P-  P-  P-  P-  P-  >.  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!

transfer begun silent                     Evaluate Serve           both     P-  ..  P-  ..  P-  .U  U-  .U  U-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
transfer begun spoke                      Evaluate Serve           both     P-  ..  P-  ..  P-  .U  U-  .U  U-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  FF
transfer begun spoke                      Save                     both     P-  ..  P-  ..  P-  .U  U-  .U  U-  .P  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  !!  F-
transfer begun ended                      Evaluate Serve           both     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  E-  F-
transfer begun ended                      Save                     both     P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  !!  FF
transfer ended silent                     -                        both     P-  ..  P-  ..  P-  .U  U-  .U  U-  >.  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
transfer ended spoke                      -                        both     P-  ..  P-  ..  P-  .U  U-  .U  U-  .!  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  !!  !!  !!  !!
transfer ended spoke                      Save                     both     P-  ..  P-  ..  P-  .U  U-  .U  U-  .!  P-  ..  S-  G-  G-  !!  T-  ..  ..  a-  .!  !!  !!  F-
transfer ended ended                      Save                     both     !!  !!  !!  !!  !!  !!  !!  !!  !!  !!  !!  ..  S-  G-  G-  !!  T-  ..  ..  a-  >!  !!  !!  F-

idle begun silent                         -                        open     NP  L.  P-  L.  P-  P-  P-  P-  P-  LP  P-  ..  S-  c-  G-  !!  ..  ..  N.  a-  !!  !!  !!  !!
idle begun silent                         Evaluate                 open     NP  L.  P-  L.  P-  P-  P-  P-  P-  LP  P-  ..  S-  c-  G-  !!  ..  ..  ..  a-  L!  !!  E-  F-

ending                                    Save                     both     --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  a-  --  --  a-
ending                                    Serve                    both     --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --

closed                                    -                        both     --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --  --
"""

# Which facts have a place: x, or ~ where they are passed over.
FACTS = """
                              setup passing hello advertise ask answer request transfer idle
ExchangeOperand               x     x       .     .         .   .      .       .        .
HelloExchangePlan             .     .       x     .         .   .      .       .        .
HelloSigner                   .     .       x     .         .   .      .       .        .
HelloTAI                      .     .       x     .         .   .      .       .        .
HelloTickInterval             .     .       x     .         .   .      .       .        .
HelloRecordFormat             .     .       x     .         .   .      .       .        .
HelloAdvertisedField          .     .       x     .         .   .      .       .        .
HelloAllAdvertisedFields      .     .       x     .         .   .      .       .        .
HelloLimit                    .     .       x     .         .   .      .       .        .
Advertised                    .     ~       .     x         .   x      .       .        x
AdvertisedField               .     ~       .     x         .   x      .       .        x
AdvertisementPartition        .     ~       .     x         .   x      .       .        x
ListAdvertisementPartition    .     .       .     .         x   .      .       .        .
NarrowAdvertisementPartition  .     .       .     .         x   .      .       .        .
AdvertisementTable            .     ~       .     x         .   .      .       .        x
AdvertisementDelta            .     ~       .     x         .   .      .       .        x
SketchAdvertisements          .     .       .     .         x   .      .       .        .
AdvertisementSketch           .     .       .     .         .   x      .       .        .
ListAdvertisementItems        .     .       .     .         x   .      .       .        .
AdvertisementsDeferred        .     ~       .     x         .   x      .       .        x
ListDeferredAdvertisements    .     .       .     .         x   .      .       .        .
MayRequest                    .     .       .     .         .   .      x       .        .
RequestListed                 .     .       .     .         .   .      x       .        .
NotAvailable                  .     .       .     .         .   .      .       x        .
TickReady                     .     ~       .     x         x   x      x       x        x
"""
PLACES = {
    "setup": Situation("setup ended spoke", "-"),
    "passing": Situation("setup begun silent passing-over", "-"),
    "hello": Situation("hello ended silent", "-"),
    "advertise": Situation("advertise ended silent", "-"),
    "ask": Situation("ask ended silent", "-"),
    "answer": Situation("answer ended silent", "-"),
    "request": Situation("request ended silent", "-"),
    "transfer": Situation("transfer ended silent", "-"),
    "idle": Situation("idle begun silent", "-"),
}

# Which answers a question takes.
QUESTIONS = """
          Evaluated Recalled Described Served Saved EvaluationFailed StoreFailed
Evaluate  x         .        .         .      .     x                x
Recall    .         x        .         .      .     x                x
Describe  .         .        x         .      .     x                x
Serve     .         .        .         x      .     x                x
Save      .         .        .         .      x     .                x
"""


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[Move]:
    """Return all moves of all machines, as they are made."""
    made: list[Move] = []
    move = Phases.move

    def noting(phases: Phases, occasion: Occasion, *, own: bool = False) -> Phase:
        before = phases.phase
        after = move(phases, occasion, own=own)
        made.append((before, occasion, after))
        return after

    monkeypatch.setattr(Phases, "move", noting)
    return made


# --- where to try, and what ---


@cache
def told(index: int, is_open: bool) -> tuple[Half, ...]:
    return tuple(stories(index, is_open=is_open))


@cache
def places(index: int, is_open: bool) -> dict[Situation, tuple[Half, int]]:
    """Return where each situation is met: a side, and how many of its inputs lead there.

    Where the peer has spoken, it has said all but the end of its phase; in a transfer, all but some
    of the records that were asked for.
    """
    found: dict[Situation, tuple[Half, int]] = {}
    best: dict[Situation, bool] = {}
    for half in told(index, is_open):
        start = situation_of(InterlaceMachine(half.side))
        for count, now in enumerate([start, *half.situations]):
            following = half.given[count] if count < len(half.given) else None
            awaited = m.PeerRecord if "transfer" in now.where else m.PeerPhaseEnd
            good = "spoke" not in now.where or isinstance(following, awaited)
            if now not in found or (good and not best[now]):
                found[now], best[now] = (half, count), good
    return found


def again(half: Half, count: int) -> InterlaceMachine:
    """Return a machine that was given the first inputs of another one."""
    machine = InterlaceMachine(half.side)
    for given in half.given[:count]:
        machine.receive(given, NOW)
    return machine


def heard(half: Half, start: bytes) -> tuple[Fact, ...]:
    """Return facts that the peer says at some time."""
    contents = (given.content for given in half.given if isinstance(given, m.PeerFacts))
    return tuple(parse_facts(next(text for text in contents if text.startswith(start))))


def in_place(half: Half, machine: InterlaceMachine) -> tuple[Fact, ...]:
    """Return facts that have their place now."""
    phase = machine.phase
    if phase is Phase.SETUP and not machine._phases.passing_over:
        return heard(half, b"ExchangeOperand")
    if phase is Phase.HELLO:
        return heard(half, b"HelloExchangePlan")
    if phase is Phase.ASK:
        return (("ListAdvertisementPartition", ""),)
    if phase is Phase.REQUEST:
        return (("MayRequest", "P.nothing.H9"),)
    if phase is Phase.TRANSFER:
        return tuple(("NotAvailable", hash) for hash in machine._transfer._outstanding)
    return (("Advertised", NOBODYS.hash, machine._adverts.source),) if machine._peers else ()


def inputs(half: Half, count: int) -> dict[str, list[m.Input]]:
    """Return what is tried in a situation, by column; the outcome is the same within a column."""
    machine = again(half, count)
    facts = in_place(half, machine)
    others: tuple[Fact, ...] = (("HelloTAI", "x"),)
    if machine.phase is Phase.HELLO:
        others = (("MayRequest", "x"),)
    by_hash = {str(record.hash): record for record in MANY_MORE + MANY}
    asked = sorted(machine._transfer._outstanding & by_hash.keys())
    record = by_hash[asked[0]] if asked else MANY[0]
    answer = due_answer(half, machine, count)
    return {
        "mod": [m.PeerModule(WIDER.id, WIDER.text.encode())],
        "fac": [m.PeerFacts(block(facts))],
        "FAC": [m.PeerFacts(block(others))],
        "tup": [m.PeerTuples(facts)],
        "TUP": [m.PeerTuples(others)],
        "rec": [m.PeerRecord(record.raw)],
        "REC": [m.PeerRecord(NOBODYS.raw)],
        "val": [m.PeerValidated(record)],
        "VAL": [m.PeerValidated(NOBODYS)],
        "end": [m.PeerPhaseEnd()],
        "prf": [PROVEN],
        "ali": [m.PeerAlive()],
        "err": [m.StreamFailed(Code.ILTP_ITEM, "no item")],
        "bye": [m.PeerGone(orderly=True)],
        "cut": [m.PeerGone()],
        "sta": [m.Started()],
        "tim": [m.TimerFired()],
        "wok": [m.Woken()],
        "opr": [m.OperandChanged(WIDER)],
        "cls": [m.CloseRequested()],
        "ans": [answer],
        "oth": [
            given for kind, given in ANSWERS.items()
            if kind is not type(answer) and kind not in FAILURES
        ],
        "evf": [ANSWERS[m.EvaluationFailed]],
        "stf": [ANSWERS[m.StoreFailed]],
    }  # fmt: skip


def due_answer(half: Half, machine: InterlaceMachine, count: int) -> m.Input:
    """Return the whole answer to the next question, as it was really given."""
    if not machine._awaiting:
        return m.Evaluated()
    asked = machine._awaiting[0]
    fitting = (given for given in half.given[count:] if m.fits(asked, given))
    answer = next(fitting)
    while isinstance(answer, m.Evaluated) and answer.more:
        part = next(fitting)
        assert isinstance(part, m.Evaluated)
        answer = m.Evaluated(
            {**answer.sendable, **part.sendable},
            answer.unsendable | part.unsendable,
            answer.requestable | part.requestable,
            answer.unrequestable | part.unrequestable,
            answer.forgotten | part.forgotten,
            part.more,
        )
    return answer


def outcome(machine: InterlaceMachine, given: m.Input, moves: list[Move]) -> str:
    """Give an input; say in one letter what came of it."""
    before, was_ending = frozen(machine), machine._ending is not None
    passing = machine._phases.passing_over
    moves.clear()
    try:
        effects = machine.receive(given, NOW)
    except LocalProtocolError as error:
        assert error.code is Code.INTERLACE_DRIVER
        assert frozen(machine) == before
        return "!"
    after = frozen(machine)
    if was_ending and not moves:
        assert effects == []
        return "-"
    if machine._ending is not None:
        event = machine._ending(machine._result())
        end = (event.code, event.blame) if isinstance(event, m.Aborted) else event.ending
        return next(letter for letter, value in ENDS.items() if value == end)
    occasions = [occasion for _, occasion, _ in moves]
    if Occasion.OPERAND in occasions:
        return "N"
    if Occasion.WAKE in occasions:
        return "L"
    if moves:
        return ">"
    del before["_phases"], after["_phases"]
    return "~" if passing and isinstance(given, m.Incoming) and before == after else "."


def row(half: Half, count: int, moves: list[Move]) -> list[str]:
    """Return the outcomes of every input, given twice."""
    found: list[str] = []
    for column, tried in inputs(half, count).items():
        pairs = set()
        for given in tried:
            machine = again(half, count)
            pairs.add("".join(outcome(machine, given, moves) for _ in range(2)))
        assert len(pairs) == 1, (column, pairs)
        found += pairs
    return found


@cache
def table() -> tuple[list[str], dict[tuple[Situation, bool], list[str]]]:
    """Return the columns, and the rows by situation and by whether the exchange is open."""
    head, *lines = filter(None, TABLE.splitlines())
    columns = head.split()[3:]
    rows: dict[tuple[Situation, bool], list[str]] = {}
    for line in lines:
        words = line.split()
        cells, left = words[-len(columns) :], words[: -len(columns)]
        kind = left.pop()
        due = [word for word in left if word == "-" or word in _QUESTION_NAMES]
        where = " ".join(word for word in left if word not in due)
        for question in due:
            for is_open in {"both": (False, True), "open": (True,), "bounded": (False,)}[kind]:
                key = Situation(where, question), is_open
                assert key not in rows, key
                rows[key] = cells
    return columns, rows


_QUESTION_NAMES = frozenset(kind.__name__ for kind in get_args(m.Question))


def squares(text: str) -> dict[tuple[str, str], str]:
    """Return the cells of a small table by row and column."""
    head, *lines = filter(None, text.splitlines())
    columns = head.split()
    return {
        (name, column): cell
        for name, *cells in map(str.split, lines)
        for column, cell in zip(columns, cells, strict=True)
    }


# --- the tables hold ---


CASES = [(index, is_open, now) for (now, is_open) in table()[1] for index in (0, 1)]


@pytest.mark.parametrize(
    ("index", "is_open", "now"),
    CASES,
    ids=[f"{now.where}-{now.due}-{index}-{'open' if o else 'bounded'}" for index, o, now in CASES],
)
def test_the_outcome_of_every_input_twice_is_known(
    index: int, is_open: bool, now: Situation, moves: list[Move]
) -> None:
    columns, rows = table()
    half, count = places(index, is_open)[now]
    assert situation_of(again(half, count)) == now
    found = dict(zip(inputs(half, count), row(half, count, moves), strict=True))
    assert found == dict(zip(columns, rows[now, is_open], strict=True))


@pytest.mark.parametrize(("index", "is_open"), SIDES)
def test_the_table_has_every_situation_of_the_stories(index: int, is_open: bool) -> None:
    expected = {now for now, kind in table()[1] if kind is is_open}
    assert set(places(index, is_open)) == expected


def test_the_table_has_every_kind_of_input() -> None:
    half, count = places(0, True)[Situation("idle begun silent", "Evaluate")]
    tried = {type(given) for column in inputs(half, count).values() for given in column}
    assert tried == {*get_args(m.FromPeer), *get_args(m.FromDriver)}
    assert list(inputs(half, count)) == table()[0]


@pytest.mark.parametrize("seed", range(examples(24)))
def test_chance_finds_no_other_situation_and_breaks_nothing(seed: int, moves: list[Move]) -> None:
    """Whatever a driver is free to choose: no honest side is blamed, and no row is missing."""
    known = {now for now, _ in table()[1]}
    for half in wandering(seed):
        assert set(half.situations) <= known
        assert not any(isinstance(event, m.Aborted) for event in half.events)
    assert all(TRANSITIONS[before, occasion] is after for before, occasion, after in moves)


@pytest.mark.req("050-XFR-06", "050-ERR-05")
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("name", PREDICATES)
@pytest.mark.parametrize("kind", [m.PeerFacts, m.PeerTuples])
def test_every_fact_has_its_phases_and_no_others(
    index: int, name: str, kind: type, moves: list[Move]
) -> None:
    for (fact, place), expected in squares(FACTS).items():
        if fact != name:
            continue
        half, count = places(index, True)[PLACES[place]]
        machine = again(half, count)
        facts = ((name, *["x"] * PREDICATES[name]),)
        if name == "TickReady":
            start = machine._ticks.start if machine._ticking else NOW
            facts = (("TickReady", start),)
        given = m.PeerFacts(block(facts)) if kind is m.PeerFacts else m.PeerTuples(facts)
        found = outcome(machine, given, moves)
        accepted = "L" if place == "idle" else "."
        assert found == {"x": accepted, "~": "~", ".": "P"}[expected], place
    assert {fact for fact, _ in squares(FACTS)} == set(PREDICATES)


@pytest.mark.parametrize("question", get_args(m.Question))
def test_every_question_has_its_answers_and_no_others(
    question: type[m.Question], moves: list[Move]
) -> None:
    expected = squares(QUESTIONS)
    half, count = next(
        place for now, place in places(0, True).items()
        if now.due == question.__name__ and now.where != "ending"
    )  # fmt: skip
    for kind, answer in ANSWERS.items():
        machine = again(half, count)
        right = due_answer(half, machine, count)
        found = outcome(machine, right if kind is type(right) else answer, moves)
        assert (found != "!") is (expected[question.__name__, kind.__name__] == "x")
    assert {kind.__name__ for kind in ANSWERS} == {kind for _, kind in expected}
    assert set(get_args(m.Answer)) == set(ANSWERS)


@pytest.mark.parametrize(
    ("question", "wrong"),
    [
        (m.Describe, m.Described((Advertisement(NOBODYS.hash, SourceLabel("x")),))),
        (m.Serve, m.Served(())),
        (m.Serve, m.Served((NOBODYS,))),
        (m.Serve, m.Served((None, None))),
        (m.Save, m.Saved(())),
        (m.Save, m.Saved(((NOBODYS.hash, Outcome(Status.ACCEPTED)),))),
    ],
)
def test_an_answer_speaks_only_of_what_was_asked(
    question: type, wrong: m.Answer, moves: list[Move]
) -> None:
    half, count = next(p for now, p in places(0, True).items() if now.due == question.__name__)
    assert outcome(again(half, count), wrong, moves) == "!"


# --- what a late answer, or an order in the middle, must not change ---


@pytest.mark.req("050-COR-08", "050-EPO-01")
@pytest.mark.parametrize(("index", "is_open"), SIDES)
def test_every_story_ends_well(index: int, is_open: bool) -> None:
    """However late answers are, and whoever changes operands: no side is ended for it."""
    for met in meetings(index, is_open=is_open):
        for half in (met.mine, met.other):
            assert not any(isinstance(event, m.Aborted) for event in half.events)
        (*_, ended) = met.mine.events
        if isinstance(ended, m.Closed) and ended.ending is m.Ending.ASKED:
            stored = {stored.hash for stored in met.mine.store.read(StoreRecordId(0), 100)}
            assert set(ended.result.received) == stored - {record.hash for record in MANY}
            assert ended.result.received
        else:
            assert any(isinstance(event, m.FixedPoint) for event in met.mine.events[-2:])
            assert met.mine.store.count() == met.other.store.count()


@pytest.mark.req("050-EPO-01", "050-OPN-04")
@pytest.mark.parametrize("index", [0, 1])
def test_an_operand_may_change_while_a_wake_is_considered(index: int) -> None:
    met = meeting(index, is_open=True, mine=MANY, theirs=MANY_MORE)
    met.start()
    met.run()
    met.save(met.mine, note(20))
    met.mine.give(m.OperandChanged(WIDER))
    while met.mine.due:
        met.mine.answer()
    assert met.mine.situations[-1].where == "setup begun silent passing-over crossing"
    (told, _) = again(met.mine, len(met.mine.given)).receive(m.PeerGone(orderly=True), NOW)
    assert isinstance(told, m.Emit)
    assert isinstance(told.event, m.Closed)  # the peer could not know of either
    assert met.run(lambda now: now.due == "Evaluate")  # by the new plan, before anything is said
    assert met.mine.situations[-1].where == "advertise begun silent"
    met.run()
    assert met.other.store.has(note(20).hash)


@pytest.mark.parametrize("index", [0, 1])
def test_only_an_advertise_phase_is_passed_over(index: int) -> None:
    """A peer that speaks of its operand is in set-up, whatever it should have sent before."""
    half, count = places(index, True)[PLACES["passing"]]
    machine = again(half, count)
    machine.receive(m.PeerTuples(heard(half, b"ExchangeOperand")), NOW)
    (told, _) = machine.receive(m.PeerPhaseEnd(), NOW)
    assert isinstance(told, m.Emit)
    assert isinstance(told.event, m.Aborted)
    assert told.event.detail == "set-up without a module"


# --- the table of phases ---


def test_every_transition_is_made_and_no_other(moves: list[Move]) -> None:
    for index, is_open in SIDES:
        for half in stories(index, is_open=is_open):
            assert half.situations
        for half, count in places(index, is_open).values():
            again(half, count).receive(m.CloseRequested(), NOW)
    assert {(before, occasion): after for before, occasion, after in moves} == TRANSITIONS


@pytest.mark.parametrize("seed", range(3))
def test_a_phase_changes_by_a_move_and_by_nothing_else(seed: int, moves: list[Move]) -> None:
    """Where a move leads is where the next one begins."""
    for half in wandering(seed):
        moves.clear()
        machine = again(half, len(half.given))
        assert moves[0][0] is Phase.SETUP
        assert all(one[2] is other[0] for one, other in pairwise(moves))
        assert moves[-1][2] is machine.phase


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("occasion", Occasion)
def test_a_move_that_is_not_in_the_table_is_a_fault_of_ours(
    phase: Phase, occasion: Occasion
) -> None:
    phases = Phases(phase)
    if (phase, occasion) in TRANSITIONS:
        assert phases.move(occasion) is phases.phase is TRANSITIONS[phase, occasion]
    else:
        with pytest.raises(LocalProtocolError):
            phases.move(occasion)
        assert phases == Phases(phase)


# --- the owner ---

_STATE = frozenset(field.name for field in fields(Phases))
_OWNER = Path(phases_module.__file__)


def assignments(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield where the state of something that is called phases is assigned to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            named, owner = node.attr in _STATE, node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            named, owner = True, node.args[0]
        else:
            continue
        if named and ast.unparse(owner).rpartition(".")[2].strip("_") == "phases":
            yield node


def test_nothing_but_its_owner_assigns_to_the_state_of_phases() -> None:
    found = [
        f"{path.name}:{node.lineno}"
        for path in Path(lace.__file__).parent.rglob("*.py")
        if path != _OWNER
        for node in assignments(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []
    for text in ("self._phases.again = True", "phases.phase, x = 1, 2", "del m._phases.ended",
                 "setattr(phases, 'phase', 1)", "a._phases.joined |= x"):  # fmt: skip
        assert list(assignments(ast.parse(text)))


def test_the_state_of_phases_changes_only_in_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for real, whatever the phases are called where they are changed."""
    changed = set()

    class Guarded(Phases):
        def __setattr__(self, name: str, value: object) -> None:
            caller = sys._getframe(1).f_code
            if caller.co_name != "__init__":  # made by the dataclass, in no file
                assert Path(caller.co_filename) == _OWNER, (name, caller)
                changed.add(name)
            object.__setattr__(self, name, value)

    monkeypatch.setattr(machine_module, "Phases", Guarded)
    for half in stories(0, is_open=True):
        assert half.situations
    assert changed == _STATE
