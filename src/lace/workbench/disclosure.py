"""What each side has learned of the other, and from which message: the disclosure ledger.

This reads what crossed, not what was meant: every line follows from a message that arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lace.interlace import messages as m
from lace.scenario.link import Message
from lace.scenario.run import Meeting
from lace.workbench.places import Places
from lace.workbench.sentences import Words

Json = dict[str, Any]


def ledger_json(meeting: Meeting, words: Words) -> list[Json]:
    """Return what was learned, in order: who learned what, at which step, from which message."""
    entries: list[Json] = []
    seen: set[tuple[int, str]] = set()
    places = Places()
    for delivery in meeting.deliveries:
        if delivery.message is None:
            continue
        peer = words.titles[1 - delivery.to]
        places.hear(delivery.message)
        for kind, text in _learned(delivery.message, peer, words, places):
            key = (delivery.to, text)
            if key not in seen:
                seen.add(key)
                entries.append(
                    {
                        "side": delivery.to,
                        "step": delivery.number - meeting.first,
                        "kind": kind,
                        "text": text,
                        "message": delivery.message.number,
                    }
                )
    return entries


def _learned(
    message: Message, peer: str, words: Words, places: Places
) -> Iterator[tuple[str, str]]:
    name = words.built.id_of
    crossing = message.crossing
    if isinstance(crossing, m.PeerModule):
        yield "rules", f"the text of {peer}'s rules, {crossing.id}"
    elif isinstance(crossing, m.PeerRecord):
        if message.original is None:
            yield "record", f"every byte of {name(message.record or '')}"
        else:
            yield "record", f"bytes that claim to be {name(message.record or '')}, damaged"
    elif isinstance(crossing, m.PeerPhaseEnd) and message.phase == "request":
        yield "request", f"in loop {message.loop}, {peer} wants nothing beyond what it asked for"
    fields: dict[str, list[str]] = {}
    limits: list[str] = []
    for fact in places.facts(message):
        match fact:
            case ("HelloSigner", verifier):
                yield "identity", f"{peer} is {verifier}"
            case ("HelloTAI", instant):
                yield "clock", f"{peer}'s clock says {instant}"
            case ("HelloLimit", limit, value):
                limits.append(f"{limit} {value}")
            case ("HelloExchangePlan", plan):
                yield "plan", f"{peer} works with plan {plan}"
            case ("Advertised", hash, _):
                fields.setdefault(hash, [])
            case ("AdvertisedField", hash, _, field, _, value):
                fields.setdefault(hash, []).append(f"{field} {value}")
            case ("AdvertisementPartition", prefix, count, _):
                many = "1 record" if count == "1" else f"{count} records"
                yield "count", f"{peer} offers {many} under '{prefix}', and their root"
            case ("MayRequest", hash):
                yield "request", f"{peer} does not have {name(hash)}, and wants it"
            case ("NotAvailable", hash):
                yield "absence", f"{peer} cannot send {name(hash)} any more"
    if limits:
        yield "limits", f"{peer}'s limits: {', '.join(limits)}"
    for hash, shown in fields.items():
        told = f" with {', '.join(shown)}" if shown else ""
        yield "advertisement", f"{peer} has {name(hash)}{told}"
