"""What happens, in sentences: for the timeline, and for those who listen to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from lace.datalog.source import Fact, parse_facts
from lace.errors import LaceError
from lace.interlace import messages as m
from lace.interlace.facts import decimal
from lace.scenario.build import Built
from lace.scenario.link import Delivery, Message

_FIRST = 3


@dataclass(frozen=True, slots=True)
class Words:
    """Names of the two sides and of the records, and sentences made with them."""

    built: Built
    titles: tuple[str, str]

    def message(self, message: Message) -> str:
        """Return what a message says, in a few words."""
        crossing = message.original or message.crossing
        match crossing:
            case m.PeerModule():
                return "rules"
            case m.PeerPhaseEnd():
                return f"end of {message.phase}"
            case m.PeerRecord():
                return f"record {self.built.id_of(message.record or '')}"
            case _:
                return self._facts(facts_of(crossing))

    def _facts(self, facts: list[Fact]) -> str:
        names = Counter(fact[0] for fact in facts)
        sayings: list[tuple[str, Callable[[int], str]]] = [
            ("ExchangeOperand", lambda _: "operand"),
            ("HelloExchangePlan", lambda _: "hello"),
            ("Advertised", lambda n: f"advertises {self._listed(facts, 'Advertised', n)}"),
            ("AdvertisementPartition", lambda n: f"sums up {_counted(n, 'partition')}"),
            ("ListAdvertisementPartition", lambda n: f"asks to list {_counted(n, 'partition')}"),
            (
                "NarrowAdvertisementPartition",
                lambda n: f"asks to narrow {_counted(n, 'partition')}",
            ),
            ("MayRequest", lambda n: f"asks for {self._listed(facts, 'MayRequest', n)}"),
            ("RequestListed", lambda _: f"asks for {_counted(_places(facts), 'listed record')}"),
            ("NotAvailable", lambda n: f"cannot send {self._listed(facts, 'NotAvailable', n)}"),
            ("AdvertisementsDeferred", lambda _: "puts off what does not fit"),
            ("ListDeferredAdvertisements", lambda _: "asks for what did not fit"),
            ("AdvertisementTable", lambda _: "sums up everything"),
            ("AdvertisementDelta", lambda _: "tells what is different since"),
            ("SketchAdvertisements", lambda _: "asks for a sketch"),
            ("AdvertisementSketch", lambda _: "sketches what it has"),
            ("TickReady", lambda _: "is ready for a tick"),
        ]
        said = [saying(names[name]) for name, saying in sayings if names[name]]
        return "; ".join(said) or _counted(len(facts), "fact")

    def _listed(self, facts: list[Fact], name: str, count: int) -> str:
        ids = [self.built.id_of(fact[1]) for fact in facts if fact[0] == name]
        shown = ", ".join(ids[:_FIRST])
        return shown if count <= _FIRST else f"{shown} and {count - _FIRST} more"

    def event(self, event: m.Event) -> str:
        """Return what an application hears, as a sentence."""
        match event:
            case m.RecordSaved():
                return f"stored {self.built.id_of(event.hash)}"
            case m.RecordDuplicate():
                return f"already had {self.built.id_of(event.hash)}"
            case m.RecordRejected():
                return f"rejected {self.built.id_of(event.hash)}: {event.code.meaning.rstrip('.')}"
            case m.FixedPoint():
                return "reached the fixed point"
            case m.Closed():
                return f"closed: {event.reason}"
            case m.Aborted():
                return f"aborted: {event.code.meaning.rstrip('.')} ({event.detail})"

    def delivery(self, delivery: Delivery) -> str:
        """Return one step as a sentence that makes sense when read aloud."""
        me, you = self.titles[delivery.to], self.titles[1 - delivery.to]
        where = f"Loop {delivery.loop}, {delivery.before}" if delivery.loop else delivery.before
        match delivery.given:
            case m.Started():
                what = f"{me} begins"
            case m.PeerGone():
                what = f"{me} notices that {you} is gone"
            case m.TimerFired():
                what = f"{me} has waited too long"
            case m.CloseRequested():
                what = f"{me} is asked to close"
            case m.PeerProven():
                what = f"{me} knows by proof who {you} is"
            case m.OperandChanged():
                what = f"{me} gets other rules"
            case m.Woken():
                what = f"{me} has something new"
            case m.StreamFailed():
                what = f"{me} loses the stream"
            case _:
                said = self.message(delivery.message) if delivery.message else "something"
                damaged = ", damaged" if delivery.message and delivery.message.original else ""
                what = f"{me} hears from {you}: {said}{damaged}"
        after = [self.event(event) for event in delivery.events if not isinstance(event, m.Closed)]
        then = f". {me} {', '.join(after)}" if after else ""
        return f"{where[:1].upper()}{where[1:]}: {what}{then}."


def facts_of(crossing: object) -> list[Fact]:
    """Return the facts of a block; none if it cannot be read."""
    if not isinstance(crossing, m.PeerFacts):
        return []
    try:
        return parse_facts(crossing.content)
    except LaceError:
        return []


def lines_of(crossing: object) -> list[str]:
    """Return the lines of a message as they cross, bad bytes made visible."""
    match crossing:
        case m.PeerFacts() | m.PeerModule():
            return crossing.content.decode("utf-8", "backslashreplace").rstrip("\n").split("\n")
    return []


def _places(facts: list[Fact]) -> int:
    """Return how many records facts ask for by place."""
    spans = [map(decimal, fact[1:]) for fact in facts if fact[0] == "RequestListed"]
    return sum(max(0, (last or 0) - (first or 0)) for first, last in spans)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
