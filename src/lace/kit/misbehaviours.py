"""The known ways to misbehave: what is changed where, and how that is to be answered."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from lace import b64a
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.interlace import messages as m
from lace.interlace.phases import Phase
from lace.record import Record, build_plex, seal
from lace.stream import items as i
from lace.stream import packing
from lace.stream.binding import OFFERED
from lace.tai import NS_PER_SECOND, add_ns

Change = Callable[[bytes], bytes]

_ZERO_DIGEST: Final = b64a.encode(bytes(32))
_NOBODY: Final = f"V.{b64a.encode(bytes(31) + bytes([1]))}.H3"
_NOTHING: Final = f"B.{_ZERO_DIGEST}.H3"


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to misbehave: what is changed where, and how that is to be answered."""

    name: str
    codes: tuple[str, ...]
    """What the other side says when it ends the exchange; none if the exchange has to go on."""
    phase: Phase | None
    """None for the preface."""
    said: type[m.Outgoing] | None
    change: Change
    needs: str = ""
    """What has to be so that the exchange gets there."""
    times: int = 1
    """How often it is done, at each place that it is for; more than once, the side stays."""
    offers: tuple[tuple[str, int], ...] = ()
    """Limits that this side offers for the purpose."""


START: Final = b"{START}"
"""In what is said, the agreed start of the exchange."""
LATER: Final = b"{LATER}"
"""The same for the tick after it."""


def _kinds() -> Iterable[Kind]:
    facts, end, module, record = m.SendFacts, m.EndPhase, m.SendModule, m.SendRecord

    def before(added: bytes) -> Change:
        return lambda honest: added + honest

    def after(added: bytes) -> Change:
        return lambda honest: honest + added

    def instead(said: bytes) -> Change:
        return lambda _: said

    def swap(old: str, new: str) -> Change:
        return lambda honest: honest.replace(old.encode(), new.encode(), 1)

    def without(start: bytes) -> Change:
        return lambda honest: b"".join(
            line for line in honest.splitlines(keepends=True) if not line.startswith(start)
        )

    def twice(start: bytes) -> Change:
        def change(honest: bytes) -> bytes:
            lines = honest.splitlines(keepends=True)
            return b"".join(line * (1 + line.startswith(start)) for line in lines)

        return change

    def value_of(predicate: str, number: int, new: str) -> Change:
        """Change one value of the first fact of a predicate."""

        def change(honest: bytes) -> bytes:
            lines = honest.splitlines(keepends=True)
            for at, line in enumerate(lines):
                if line.startswith(f"{predicate}(".encode()):
                    values = line.decode()[len(predicate) + 2 : -3].split("','")
                    values[number] = new
                    said = "','".join(values)
                    lines[at] = f"{predicate}('{said}')\n".encode()
                    break
            return b"".join(lines)

        return change

    # The preface.
    yield Kind("nothing but zeros", ("iltp.item",), None, None, instead(bytes(100)))
    yield Kind(
        "the greeting of another protocol",
        ("iltp.preface",),
        None,
        None,
        instead(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    )
    yield Kind("another version", ("iltp.version",), None, None, swap("ILTP/1", "ILTP/9"))
    yield Kind("two prefaces", ("iltp.preface",), None, None, lambda honest: honest * 2)
    yield Kind(
        "a nonce that is too short",
        ("iltp.preface",),
        None,
        None,
        lambda honest: honest[:-3] + b"\n\n",
    )
    yield Kind("a comment before the preface", ("iltp.preface",), None, None, before(b"# hello\n"))
    yield Kind("an item of no kind", ("iltp.item",), None, None, after(b"\xff\xfe\n"))
    yield Kind("a line without an end", ("iltp.line",), None, None, after(b"A" * 20_000))
    yield Kind("a comment without an end", ("iltp.line",), None, None, after(b"#" * 20_000))
    yield Kind(
        "a record with the hash at its end",
        ("record.trailer-form",),
        None,
        None,
        after("⋯🖧: B.x.H3\n".encode()),
    )
    yield Kind(
        "a record of a hundred gigabytes",
        ("record.data-too-large",),
        None,
        None,
        after(f"🖧: {_NOTHING}\nData-Length: 99999999999\n\n".encode()),
    )
    yield Kind(
        "packed lines before any offer",
        ("iltp.compression", "iltp.item"),
        None,
        None,
        after(_packed(b"HelloTAI('x')\n" * 50)),
    )
    yield Kind(
        "a bomb of packed lines",
        ("iltp.compression", "iltp.item"),
        None,
        None,
        after("🗜: deflate\nData-Length: 9\nFull-Length: 9999999\n\n".encode() + bytes(9)),
    )
    # Set-up.
    yield Kind("no module", ("interlace.phase",), Phase.SETUP, module, instead(b"\n"))
    yield Kind("two modules", ("interlace.phase",), Phase.SETUP, module, lambda honest: honest * 2)
    yield Kind(
        "a module with the id of another",
        ("policy.module-id",),
        Phase.SETUP,
        module,
        instead(_resource("R." + _ZERO_DIGEST, b"SelectHave(P) :- Have(P).\n")),
    )
    yield Kind(
        "a module of a gigabyte",
        ("iltp.resource-size",),
        Phase.SETUP,
        module,
        instead(f"🧩: R.{_ZERO_DIGEST}\nData-Length: 999999999\n\n".encode()),
    )
    yield Kind(
        "a resource with a malformed head",
        ("iltp.resource",),
        Phase.SETUP,
        module,
        instead("🧩: X\nData-Length: 1\n\nx".encode()),
    )
    for name, code, text in (
        ("rules in another spelling", "lacegram.not-canonical", "SelectHave(P):-Have(P)."),
        ("rules that are no rules", "lacegram.", "this is not a rule"),
        ("rules that do not say what is selected", "policy.export", "A(P) :- Have(P)."),
        ("an unsafe rule", "lacegram.unsafe", "SelectHave(P) :- Have(Q)."),
        ("rules that define what may be sent", "lacegram.reserved", "MaySend(P) :- Have(P)."),
        (
            "a predicate that depends on its own negation",
            "lacegram.unstratified",
            "SelectHave(P) :- Have(P), not SelectHave(P).",
        ),
    ):
        yield Kind(
            name, (code, "lacegram.", "policy."), Phase.SETUP, module, instead(_module(text))
        )
    yield Kind(
        "rules that cost too much",
        ("lacegram.cost",),
        Phase.SETUP,
        module,
        instead(_module(_dear())),
    )
    yield Kind(
        "another index",
        ("policy.operand",),
        Phase.SETUP,
        facts,
        value_of("ExchangeOperand", 0, "7"),
    )
    yield Kind(
        "another module in the operand",
        ("policy.module-id",),
        Phase.SETUP,
        facts,
        value_of("ExchangeOperand", 1, "R." + _ZERO_DIGEST),
    )
    yield Kind(
        "a label of one's own choice",
        ("policy.origin",),
        Phase.SETUP,
        facts,
        value_of("ExchangeOperand", 2, "Opq_me"),
    )
    yield Kind(
        "an unknown facet",
        ("policy.facet",),
        Phase.SETUP,
        facts,
        value_of("ExchangeOperand", 3, "expose-all"),
    )
    yield Kind("no operand", ("interlace.phase",), Phase.SETUP, facts, instead(b""))
    yield Kind(
        "two operands",
        ("interlace.phase",),
        Phase.SETUP,
        facts,
        after(b"ExchangeOperand('1','R.x','Opq_x','selector')\n"),
    )
    yield Kind(
        "a record in set-up",
        ("interlace.phase",),
        Phase.SETUP,
        facts,
        before(f"🖧: {_NOTHING}\nData-Length: 0\n\n".encode()),
    )
    yield Kind(
        "a request in set-up",
        ("interlace.phase",),
        Phase.SETUP,
        facts,
        before(f"MayRequest('{_NOTHING}')\n".encode()),
    )
    # Hello.
    yield Kind(
        "another plan",
        ("interlace.plan",),
        Phase.HELLO,
        facts,
        value_of("HelloExchangePlan", 0, "E." + _ZERO_DIGEST),
    )
    yield Kind("no plan", ("interlace.hello",), Phase.HELLO, facts, without(b"HelloExchangePlan"))
    yield Kind("no clock", ("interlace.hello",), Phase.HELLO, facts, without(b"HelloTAI"))
    yield Kind(
        "a clock that is no instant",
        ("interlace.hello",),
        Phase.HELLO,
        facts,
        value_of("HelloTAI", 0, "now"),
    )
    yield Kind(
        "a clock an hour ahead",
        ("interlace.clock",),
        Phase.HELLO,
        facts,
        value_of("HelloTAI", 0, add_ns(tai_now(), 3600 * NS_PER_SECOND)),
    )
    yield Kind(
        "two clocks",
        ("interlace.hello",),
        Phase.HELLO,
        facts,
        after(b"HelloTAI('0000000001:000000000')\n"),
    )
    yield Kind(
        "a tick interval of nothing",
        ("interlace.hello",),
        Phase.HELLO,
        facts,
        value_of("HelloTickInterval", 0, "0"),
    )
    yield Kind(
        "a limit that is no number",
        ("interlace.hello",),
        Phase.HELLO,
        facts,
        value_of("HelloLimit", 1, "many"),
    )
    yield Kind(
        "a limit with a leading zero",
        ("interlace.hello",),
        Phase.HELLO,
        facts,
        value_of("HelloLimit", 1, "01"),
    )
    yield Kind(
        "no record format in common",
        ("interlace.format",),
        Phase.HELLO,
        facts,
        value_of("HelloRecordFormat", 0, "X9"),
    )
    yield Kind(
        "fewer fields than the plan looks at",
        ("interlace.schema",),
        Phase.HELLO,
        facts,
        lambda honest: without(b"HelloAllAdvertisedFields")(
            without(b"HelloAdvertisedField")(honest)
        ),
        needs="a selector that looks at fields",
    )
    yield Kind(
        "a signer without proof",
        ("interlace.signer",),
        Phase.HELLO,
        facts,
        after(f"HelloSigner('{_NOBODY}')\n".encode()),
    )
    yield Kind(
        "a proof of another connection",
        ("iltp.proof",),
        Phase.HELLO,
        end,
        lambda honest: OFFERED + _forged_proof() + honest,
    )
    yield Kind(
        "a fact after the offer",
        ("iltp.order",),
        Phase.HELLO,
        end,
        before(OFFERED + b"HelloLimit('max_cells_in_sketch','1')\n"),
    )
    yield Kind(
        "an unknown predicate", ("interlace.block",), Phase.HELLO, facts, after(b"Evil('x')\n")
    )
    yield Kind(
        "a known predicate with a value too many",
        ("interlace.block",),
        Phase.HELLO,
        facts,
        after(b"HelloRecordFormat('H3','H3')\n"),
    )
    yield Kind(
        "bytes that are no text",
        ("interlace.block",),
        Phase.HELLO,
        facts,
        after(b"HelloRecordFormat('\xff')\n"),
    )
    yield Kind(
        "a value of two kilobytes",
        ("interlace.block",),
        Phase.HELLO,
        facts,
        after(b"HelloRecordFormat('" + b"X" * 2048 + b"')\n"),
    )
    yield Kind(
        "more after the end of hello",
        ("interlace.phase", "iltp.order"),
        Phase.HELLO,
        end,
        lambda honest: honest + b"HelloRecordFormat('H3')\n",
    )
    # Advertise.
    for name, code, line in (
        (
            "a summary with a count that is no number",
            "interlace.summary",
            f"'','many','{_ZERO_DIGEST}'",
        ),
        ("a summary with a root that is no digest", "interlace.summary", "'','12','root'"),
        (
            "a summary of nothing with the root of something",
            "interlace.summary",
            f"'','0','{_ZERO_DIGEST}'",
        ),
        ("a summary of no partition", "interlace.summary", f"'!!','1','{_ZERO_DIGEST}'"),
        ("a summary of another length", "interlace.summary", f"'abc','1','{_ZERO_DIGEST}'"),
    ):
        yield Kind(
            name,
            (code,),
            Phase.ADVERTISE,
            facts,
            instead(f"AdvertisementPartition({line})\n".encode()),
        )
    yield Kind(
        "two summaries of one partition",
        ("interlace.summary",),
        Phase.ADVERTISE,
        facts,
        after(
            f"AdvertisementPartition('','9','{_ZERO_DIGEST}')\n"
            f"AdvertisementPartition('','8','{_ZERO_DIGEST}')\n".encode()
        ),
    )
    yield Kind(
        "summaries and a listing in one",
        ("interlace.block", "interlace.source"),
        Phase.ADVERTISE,
        facts,
        after(f"Advertised('{_NOTHING}','Opq_x')\n".encode()),
    )
    yield Kind(
        "an advertisement in another's name",
        ("interlace.source",),
        Phase.ADVERTISE,
        facts,
        instead(f"Advertised('{_NOTHING}','{_NOBODY}')\n".encode()),
    )
    yield Kind(
        "an advertisement of no record",
        ("interlace.block", "interlace.source"),
        Phase.ADVERTISE,
        facts,
        instead(b"Advertised('x','Opq_x')\n"),
    )
    yield Kind(
        "fields of a record that is not advertised",
        ("interlace.block", "interlace.source"),
        Phase.ADVERTISE,
        facts,
        instead(f"AdvertisedField('{_NOTHING}','Opq_x','App','0','x')\n".encode()),
    )
    yield Kind(
        "a table that was not offered",
        ("interlace.phase",),
        Phase.ADVERTISE,
        facts,
        instead(f"AdvertisementTable('1','{_ZERO_DIGEST}')\n".encode()),
    )
    yield Kind(
        "a tick that is not aligned",
        ("interlace.tick",),
        Phase.ADVERTISE,
        end,
        lambda honest: f"TickReady('{add_ns(tai_now(), 1)}')\n".encode() + honest,
    )
    yield Kind(
        "a tick of long ago",
        ("interlace.tick",),
        Phase.ADVERTISE,
        end,
        before(b"TickReady('0000000001:000000000')\n"),
    )
    yield Kind(
        "a record where advertisements are",
        ("interlace.phase",),
        Phase.ADVERTISE,
        end,
        before(f"🖧: {_NOTHING}\nData-Length: 0\n\n".encode()),
    )
    yield Kind(
        "a plan after hello",
        ("iltp.order", "policy.module-id"),
        Phase.ADVERTISE,
        end,
        before(_plan()),
    )
    yield Kind(
        "a tick that goes back",
        ("interlace.tick",),
        Phase.ADVERTISE,
        end,
        before(b"TickReady('" + LATER + b"')\nTickReady('" + START + b"')\n"),
    )
    # Ask and answer.
    yield Kind(
        "a question about no partition",
        ("interlace.summary",),
        Phase.ASK,
        end,
        before(b"ListAdvertisementPartition('!')\n"),
    )
    yield Kind(
        "two listings that overlap",
        ("interlace.phase",),
        Phase.ASK,
        end,
        before(b"ListAdvertisementPartition('')\nListAdvertisementPartition('a')\n"),
    )
    yield Kind(
        "narrowing below any depth",
        ("limit.exceeded",),
        Phase.ASK,
        end,
        before(f"NarrowAdvertisementPartition('{'a' * 40}')\n".encode()),
    )
    yield Kind(
        "a sketch that was not offered",
        ("interlace.phase",),
        Phase.ASK,
        end,
        before(b"SketchAdvertisements('0','128')\n"),
    )
    listing = "the other side wants what is advertised"
    yield Kind(
        "a listing that is not its summary",
        ("interlace.listing",),
        Phase.ANSWER,
        facts,
        instead(b""),
        needs=listing,
    )
    yield Kind(
        "answers that nobody asked for",
        ("interlace.summary", "interlace.listing"),
        Phase.ANSWER,
        end,
        before(f"AdvertisementPartition('zz','1','{_ZERO_DIGEST}')\n".encode()),
        needs=listing,
    )
    for name, codes, phase, words in (
        (
            "a question for advertisements that nobody put off",
            ("interlace.phase",),
            Phase.ASK,
            b"ListDeferredAdvertisements()\n",
        ),
        (
            "a number of advertisements put off that is no number",
            ("interlace.listing", "interlace.phase"),
            Phase.ADVERTISE,
            b"AdvertisementsDeferred('many')\n",
        ),
        (
            "more advertisements put off than agreed",
            ("limit.exceeded", "interlace.phase"),
            Phase.ADVERTISE,
            b"AdvertisementsDeferred('101')\n",
        ),
    ):
        yield Kind(
            name, codes, phase, end, before(words), offers=(("max_deferred_advertisements", 100),)
        )
    # Request and transfer.
    yield Kind(
        "advertisements among requests",
        ("interlace.phase",),
        Phase.REQUEST,
        end,
        before(f"Advertised('{_NOTHING}','Opq_x')\n".encode()),
    )
    yield Kind(
        "a request for what is not there",
        (),
        Phase.REQUEST,
        end,
        before(f"MayRequest('{_NOTHING}')\n".encode()),
    )
    yield Kind(
        "a request by place that was not offered",
        ("interlace.phase",),
        Phase.REQUEST,
        end,
        before(b"RequestListed('0','1')\n"),
    )
    for name, spans in (
        ("a request for a place that nothing has", b"RequestListed('0','1000000')\n"),
        ("a request for no place", b"RequestListed('1','1')\n"),
        ("a request for a place that is no number", b"RequestListed('first','last')\n"),
    ):
        yield Kind(
            name,
            ("interlace.request", "interlace.phase"),
            Phase.REQUEST,
            end,
            before(spans),
            offers=(("max_places_listed", 100),),
        )
    wanted = "the other side takes records"
    yield Kind(
        "a record that nobody asked for",
        ("interlace.unasked",),
        Phase.TRANSFER,
        end,
        lambda honest: _stray().raw + honest,
        needs="a record moves, either way",
    )
    yield Kind(
        "not available, and nobody asked",
        ("interlace.unasked",),
        Phase.TRANSFER,
        end,
        before(f"NotAvailable('{_NOTHING}')\n".encode()),
        needs="a record moves, either way",
    )
    yield Kind(
        "a record twice",
        ("interlace.unasked",),
        Phase.TRANSFER,
        record,
        lambda honest: honest * 2,
        needs=wanted,
    )
    yield Kind(
        "a record whose data was changed",
        (),
        Phase.TRANSFER,
        record,
        lambda honest: honest[:-1] + bytes([honest[-1] ^ 1]),
        needs=wanted,
    )
    yield Kind(
        "a record whose signature was changed",
        (),
        Phase.TRANSFER,
        record,
        _other_signature,
        needs=wanted,
    )
    yield Kind(
        "a record under the name of another",
        ("interlace.unasked",),
        Phase.TRANSFER,
        record,
        swap("🖧: S.", "🖧: P."),
        needs=wanted,
    )
    # Floods.
    yield Kind(
        "a hello of more than a megabyte",
        ("limit.exceeded", "interlace.block-size"),
        Phase.HELLO,
        facts,
        after(b"HelloLimit('x','1')\n" * 60_000),
    )
    yield Kind(
        "comments without end",
        ("interlace.block-size",),
        Phase.ADVERTISE,
        end,
        before((b"#" + b" " * 16_000 + b"\n") * 4_400),
    )
    yield Kind(
        "a block larger than was agreed",
        ("interlace.block-size",),
        Phase.ADVERTISE,
        end,
        before((b"TickReady('" + START + b"')\n") * 1_000),
        offers=(("max_fact_block_size", 20_000),),
    )
    yield Kind(
        "ends of phases without end",
        ("interlace.phase", "interlace.listing", "interlace.summary", "limit.exceeded"),
        Phase.ADVERTISE,
        end,
        before(b"\n" * 10_000),
    )
    yield Kind(
        "loops without end",
        ("limit.exceeded",),
        Phase.REQUEST,
        end,
        before(b"TickReady('" + START + b"')\n"),
        times=200,
        offers=(("max_loop_iterations", 1_000_000),),
    )
    # Set-ups.
    yield Kind(
        "a set-up in the middle of a loop",
        ("interlace.phase", "iltp.order"),
        Phase.ASK,
        end,
        before(_module("SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P).")),
    )


def kinds() -> dict[str, Kind]:
    """Return all kinds by name, in the order of an exchange."""
    return {kind.name: kind for kind in _kinds()}


# --- what is said ---


def _resource(id: str, text: bytes) -> bytes:
    return i.resource(id, text)


def _module(text: str) -> bytes:
    content = f"{text}\n".encode()
    return i.resource(i.resource_id("R", content), content)


def _plan() -> bytes:
    content = b"ExchangePlanProfile('x')\n"
    return i.resource(i.resource_id("E", content), content)


def _dear() -> str:
    parts = ", ".join(f"Field(P{n},A{n},B{n},C{n})" for n in range(40))
    rules = [
        f"SelectHave(P0) :- {parts}.",
        "SelectAdvertised(P,S) :- Advertised(P,S).",
    ]
    return "\n".join(sorted(rules))


def _packed(lines: bytes) -> bytes:
    packed = zlib.compress(lines)
    head = f"deflate\nData-Length: {len(packed)}\nFull-Length: {len(lines)}\n\n"
    return packing.MARK + head.encode() + packed


def _forged_proof() -> bytes:
    plex = build_plex(group="lace", app="iltp/peer-proof", name="x/y", tai=tai_now())
    return seal(plex, SigningKey.generate()).raw


def _stray() -> Record:
    return build_plex(group="kit", app="stray", name="x", tai=tai_now())


def _other_signature(honest: bytes) -> bytes:
    at = honest.find(b"Signature: ") + len("Signature: ")
    other = b"1" if honest[at : at + 1] != b"1" else b"2"
    return honest[:at] + other + honest[at + 1 :]
