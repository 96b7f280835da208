"""The cases of vectors/exchanges.json and vectors/advertisements.json.

What goes in is stated here; what comes out of an exchange is written down as the engine does it, to
be read by people and held against other implementations. Codes of refusals are stated, and so are
the digests and roots of advertisements: those are computed here from the definition alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import forge
from blake3 import blake3
from exchanges import MEMBERS
from retelling import Json, run_exchange, run_hearing

from lace import b64a
from lace.crypto import SigningKey
from lace.interlace.negotiate import CAPABILITIES
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.record import Record, build_blob, build_plex, fields, seal
from lace.selectors import all_of, selector
from lace.text import fact_line

KEY, BOB, EVE = forge.KEY, SigningKey(b"b" * 32), SigningKey(b"e" * 32)
NOW = "1700000000:000000000"
NONCES = [b64a.encode(bytes([n]) * 32) for n in (1, 2)]
PLEX = build_plex(group="u", app="ding", name="links/1", tai="1640995200:000000000", data=b"hello")

LINKS = selector("//u//ding//links/")
GROUP = module_from_text(
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\n"
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
)
EVERYTHING = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
SHY = module_from_text(
    "SelectHave(P) :- Have(P), not Stop('now').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    "Stop('now') :- Advertised(Q,S), AdvertisedField(Q,S,'Name',_,'links/9').\n"
)
DUE = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(Now), LexCompare(T,'<=',Now).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
SKEWED = module_from_text(
    "SelectHave(P) :- Have(P), ClockSkewSeconds('1').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), ClockSkewSeconds('1').\n"
)
TAGS = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Tag',_,'x').\n"
)
FOUR_FIELDS = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Type',_,'P'), Field(P,'Group',_,'u'),"
    " Field(P,'App',_,'ding'), Field(P,'Name',_,'links/1').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Type',_,'P'),"
    " AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'ding'),"
    " AdvertisedField(P,S,'Name',_,'links/1').\n"
)


def link(number: int, group: str = "u") -> Record:
    return build_plex(
        group=group, app="ding", name=f"links/{number}", tai=f"{number:010d}:{0:09d}", data=b"hello"
    )


def sealed(key: SigningKey, app: str, name: str) -> Record:
    plex = build_plex(group="u", app=app, name=name, tai=f"{1:010d}:{0:09d}")
    return seal(plex, key, aux=forge.AUX)


def later(seconds: int) -> list[str]:
    return [f"{1_700_000_000 + seconds}:000000000"] * 2


#: As with a peer that knows of nothing but partitions.
BY_PARTITIONS: Final = dict.fromkeys(sorted(CAPABILITIES), 0)
BY_TABLES: Final = {"max_advertisements_in_delta": 100, "max_cells_in_sketch": 1024}


class Book:
    """Collects cases, and the records that they speak of."""

    def __init__(self) -> None:
        self.records: Json = {}
        self.exchanges: list[Json] = []
        self.refusals: list[Json] = []

    def side(self, records: Iterable[Record], module: PolicyModule, **options: Any) -> Json:
        return {
            "module": module.text,
            "records": [self.keep(record) for record in records],
            **options,
        }

    def keep(self, record: Record) -> str:
        self.records[record.hash] = b64a.encode(record.raw)
        return record.hash

    def exchange(
        self,
        why: str,
        stores: tuple[Iterable[Record], Iterable[Record]],
        module: PolicyModule | tuple[PolicyModule, PolicyModule],
        *steps: Json,
        each: tuple[Json, Json] = ({}, {}),
        clocks: list[str] | None = None,
        **options: Any,
    ) -> Json:
        """Add an exchange of two honest sides."""
        modules = module if isinstance(module, tuple) else (module, module)
        sides = []
        for index in (0, 1):
            told = options | each[index]
            limits = BY_PARTITIONS | options.get("limits", {}) | each[index].get("limits", {})
            sides.append(self.side(stores[index], modules[index], **(told | {"limits": limits})))
        first = {"do": "start", "clocks": clocks or [NOW, NOW], "nonces": NONCES}
        case = {"why": why, "sides": sides, "steps": [first, *steps]}
        case |= run_exchange(case, self.records)
        self.exchanges.append(case)
        return case

    def refusal(
        self, why: str, code: str, base: Json, change: Callable[[list[Json]], object]
    ) -> None:
        """Add what side 1 of an exchange does when side 0 says something else."""
        hears = json.loads(json.dumps(base["said"][0]))
        change(hears)
        changed = [i for i, phase in enumerate(hears) if phase != base["said"][0][i]]
        assert len(changed) == 1, why
        phase = changed[0]
        case = {"why": why, "code": code, "of": base["why"], "phase": phase, "items": hears[phase]["items"]}  # fmt: skip
        case |= run_hearing(case, base, self.records)
        found = [event["code"] for event in case["events"] if "code" in event]
        assert found == [code], (why, found, code)
        self.refusals.append(case)


# --- exchanges ---


def exchanges(book: Book) -> None:
    book.exchange("nothing on either side", ([], []), LINKS)
    book.exchange("one record each way", ([link(1)], [link(2)]), LINKS)
    book.exchange(
        "clocks that differ: the later one is the start, the skew is in whole seconds",
        ([link(1_700_000_001), link(1_700_000_002)], []),
        all_of(DUE, SKEWED),
        clocks=["1700000000:000000000", "1700000001:999999999"],
        each=({"tick_interval": 30_000_000_000}, {}),
    )
    plan_of_an_independent_program(book)
    advertisement_of_an_independent_program(book)
    many = [link(n) for n in range(12)]
    book.exchange("equal sets, coarse start: one summary settles all", (many, many), LINKS)
    book.exchange("one record is missing, coarse start, narrowed once", (many, many[1:]), LINKS)
    book.exchange("one record is missing, standard start", (many, many[1:]), LINKS, coarse=False)
    book.exchange(
        "a coarse start needs both sides: here only one offers it",
        (many, many[1:]),
        LINKS,
        each=({"coarse": True}, {"coarse": False}),
    )
    by_tables(book)
    by_places(book)
    in_parts(book)
    crowded = sharing_a_partition(10)
    book.exchange(
        "ten records share two characters, one is missing: standard start, narrowed",
        (crowded, crowded[1:]),
        LINKS,
        coarse=False,
    )
    book.exchange(
        "no summaries allowed: everything is listed",
        (many[:10], many[8:]),
        LINKS,
        limits={"max_partition_summaries": 0},
    )
    member = sealed(KEY, "member", BOB.verifier)
    dings = [sealed(BOB, "ding", "links/1"), sealed(EVE, "ding", "links/2")]
    book.exchange("evidence first, then what it allows", ([member, *dings], []), MEMBERS)
    book.exchange(
        "a sender's budget of one byte: what is deferred is asked for again",
        ([link(1), link(2), link(3)], []),
        LINKS,
        each=({"limits": {"transfer_phase_bytes": 1}}, {}),
    )
    book.exchange(
        "what the peer advertises takes back what was advertised: not available",
        ([link(1), link(2)], [link(9)]),
        (SHY, EVERYTHING),
    )
    size = len(link(1).raw)
    book.exchange(
        "one byte more than may be transferred: both sides abort, what was stored stays",
        ([link(1), link(2)], []),
        LINKS,
        each=({}, {"limits": {"max_total_transferred_bytes": 2 * size - 1}}),
    )
    book.exchange(
        "one loop less than needed: closed with a reason, and no fixed point",
        ([member, *dings], []),
        MEMBERS,
        limits={"max_loop_iterations": 2},
    )
    book.exchange(
        "data that looks like facts, ends of phases and records",
        ([build_blob(b"MayRequest('x')\n\n"), build_blob(bytes(range(256))), build_blob(PLEX.raw)], []),
        EVERYTHING,
    )  # fmt: skip
    book.exchange(
        "what the peer may neither query nor select leaves no trace",
        ([link(1), link(2, group="private")], []),
        (GROUP, EVERYTHING),
    )
    book.exchange(
        "a rule that asks for any field: all fields are told",
        ([link(1)], []),
        module_from_text(
            "SelectHave(P) :- Have(P).\n"
            "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,_,_,'ding').\n"
        ),
    )
    proven = ({"verifier": KEY.verifier, "peer_verifier": BOB.verifier}, {"verifier": BOB.verifier, "peer_verifier": KEY.verifier})  # fmt: skip
    book.exchange(
        "both sides proven: sources are verifiers, and the link has an id",
        ([link(1)], [link(2)]),
        LINKS,
        each=proven,
    )
    open_exchanges(book)


def open_exchanges(book: Book) -> None:
    for record in (link(3), link(4, group="private"), link(1_700_000_015)):
        book.keep(record)
    book.exchange(
        "open: a record is stored later, and one that the peer may not know of",
        ([link(1)], []),
        GROUP,
        {"do": "store", "side": 0, "records": [link(3).hash]},
        {"do": "wake", "side": 0},
        {"do": "store", "side": 0, "records": [link(4, group="private").hash]},
        {"do": "wake", "side": 0},
        {"do": "close", "side": 0},
        {"do": "gone", "side": 1},
        open=True,
    )
    book.exchange(
        "open: a record is due at the second tick, when both sides have reached it",
        ([link(1_700_000_015)], []),
        DUE,
        {"do": "timer", "side": 0, "clocks": [later(20)[0], later(5)[0]]},
        {"do": "timer", "side": 1, "clocks": later(21)},
        {"do": "close", "side": 1},
        {"do": "gone", "side": 0},
        open=True,
    )
    book.exchange(
        "open: an operand changes twice, each time with a new plan, and nothing stored is lost",
        ([link(1), link(4, group="private")], []),
        (EVERYTHING, LINKS),
        {"do": "operand", "side": 1, "module": EVERYTHING.text},
        {"do": "operand", "side": 0, "module": LINKS.text},
        {"do": "close", "side": 0},
        {"do": "gone", "side": 1},
        open=True,
    )
    book.exchange(
        "open: the same operand again is the same plan, and nothing is listed again",
        ([link(n) for n in range(10)], [link(n) for n in range(10)]),
        LINKS,
        {"do": "operand", "side": 0, "module": LINKS.text},
        open=True,
    )


def plan_of_an_independent_program(book: Book) -> None:
    """Nonces by which the labels are those of vectors/independent.json, and so is the plan."""
    labels = {"Opq_3", "Opq_x"}
    for number in range(1 << 20):
        nonces = [b64a.encode(n.to_bytes(32, "big")) for n in (number, number + 1)]
        parties = [Party(index=i, module=GROUP, nonce=nonces[i]) for i in (0, 1)]
        operands = label_operands(parties[0], parties[1])
        if [operand.origin for operand in operands] == sorted(labels):
            break
    named = [{"nonce": nonces[i], "peer_nonce": nonces[1 - i]} for i in (0, 1)]
    book.exchange(
        "the exchange plan is the one that an independent program computed",
        ([PLEX], []),
        GROUP,
        each=(named[0], named[1]),
    )


def advertisement_of_an_independent_program(book: Book) -> None:
    book.keep(PLEX)
    book.exchange(
        "the summary of one record is the one that an independent program computed",
        ([], []),
        FOUR_FIELDS,
        {"do": "store", "side": 0, "records": [PLEX.hash]},
        {"do": "wake", "side": 0},
        each=({"verifier": KEY.verifier}, {"peer_verifier": KEY.verifier}),
        open=True,
    )


def sharing_a_partition(count: int) -> list[Record]:
    found: list[Record] = []
    number = 0
    while len(found) < count:
        record = link(number)
        number += 1
        if record.hash[2:4] == "ab":
            found.append(record)
    return found


# --- refusals ---


def facts(hears: list[Json], phase: int, at: int = 0) -> list[str]:
    """Return the fact lines of a phase, to be changed."""
    found = [item["facts"] for item in hears[phase]["items"] if "facts" in item]
    lines: list[str] = found[at]
    return lines


def replacing(phase: int, old: str, new: str) -> Callable[[list[Json]], object]:
    def change(hears: list[Json]) -> None:
        lines = facts(hears, phase)
        assert any(old in line for line in lines), old
        lines[:] = [line.replace(old, new) for line in lines]

    return change


def adding(phase: int, *more: str) -> Callable[[list[Json]], object]:
    def change(hears: list[Json]) -> None:
        items = hears[phase]["items"]
        if not any("facts" in item for item in items):
            items.append({"facts": []})
        facts(hears, phase).extend(more)

    return change


def dropping(phase: int, name: str) -> Callable[[list[Json]], object]:
    def change(hears: list[Json]) -> None:
        lines = facts(hears, phase)
        lines[:] = [line for line in lines if not line.startswith(f"{name}(")]

    return change


def saying(module: bytes) -> Callable[[list[Json]], object]:
    """Return a change of the module, with the id that belongs to it."""

    def change(hears: list[Json]) -> None:
        id = f"R.{b64a.encode(blake3(module).digest())}"
        hears[0]["items"][0] = {"id": id, "module": module.decode()}

    return change


def sending(*raws: bytes) -> Callable[[list[Json]], object]:
    def change(hears: list[Json]) -> None:
        hears[TRANSFER]["items"] = [{"record": b64a.encode(raw)} for raw in raws]

    return change


SETUP, HELLO, ADVERTISE, ASK, REQUEST, TRANSFER = range(6)
"""The phases of the first loop, when nothing has to be asked."""


def by_tables(book: Book) -> None:
    """Tables with one digest each: equal, found out by partitions, by sketches, told by what is new."""
    many = [link(n) for n in range(80)]
    some = many[:12]
    book.exchange("equal tables: one digest settles all", (some, some), LINKS, limits=BY_TABLES)
    book.exchange("tables that differ, found out by partitions", (some, some[1:]), LINKS, limits=BY_TABLES)  # fmt: skip
    book.exchange("tables that differ both ways, found out by a sketch", (many[2:], many[:-1]), LINKS, limits=BY_TABLES)  # fmt: skip
    book.exchange("tables need the offer of both sides", (some, some[1:]), LINKS, each=({"limits": BY_TABLES}, {}))  # fmt: skip
    fresh = [book.keep(record) for record in many[12:40]]
    book.exchange(
        "a table and what is new in it, in an exchange that stays open",
        (some, []),
        LINKS,
        {"do": "store", "side": 0, "records": fresh},
        {"do": "wake", "side": 0},
        {"do": "close", "side": 0},
        {"do": "gone", "side": 1},
        limits=BY_TABLES,
        open=True,
    )


BY_PLACES: Final = {"max_places_listed": 100}
LISTING: Final = {"max_partition_summaries": 0}
"""Nothing can be summed up, so everything is listed."""


def by_places(book: Book) -> None:
    """Requests by place: all of a listing, parts of it, the next loop's, and where there are none."""
    many = [link(n) for n in range(20)]
    book.exchange("twelve listed records are requested by place", (many[:12], []), LINKS, limits=BY_PLACES)  # fmt: skip
    ordered = sorted(many, key=lambda record: record.hash)
    two_of_five = [record for n, record in enumerate(ordered) if n % 5 < 2]
    book.exchange(
        "a listing of which most is lacking, in several spans",
        (many, two_of_five),
        LINKS,
        limits=BY_PLACES | LISTING,
    )
    book.exchange(
        "what is deferred is requested in full: nothing is listed in the next loop",
        (many[:9], []),
        LINKS,
        each=({"limits": {"transfer_phase_bytes": 1000}}, {}),
        limits=BY_PLACES,
    )
    book.exchange(
        "more is listed than both sides number: requested in full",
        (many[:12], []),
        LINKS,
        each=({}, {"limits": {"max_places_listed": 11}}),
        limits=BY_PLACES,
    )
    book.exchange(
        "places need the offer of both sides",
        (many[:12], []),
        LINKS,
        each=({"limits": BY_PLACES}, {}),
    )


IN_PARTS: Final = {"max_fact_block_size": 8000, "max_deferred_advertisements": 100}


def tagged(number: int) -> Record:
    """Return a record whose advertisement has about 3 KB."""
    tags = [("Tag", f"{line} {'x' * 900}") for line in range(3)]
    tai = f"{number:010d}:{0:09d}"
    return build_plex(group="u", app="ding", name=f"tags/{number}", tai=tai, extras=tags)


def in_parts(book: Book) -> None:
    """Advertisements that do not fit a block: of a first listing, of an answer, of what is new."""
    many = [tagged(n) for n in range(16)]
    book.exchange("a first listing that does not fit a block", (many[:5], many[3:7]), TAGS, limits=IN_PARTS)  # fmt: skip
    book.exchange("an answer that does not fit a block", (many[:12], []), TAGS, limits=IN_PARTS)
    book.exchange(
        "what is new does not fit beside the table",
        (many[:2], []),
        TAGS,
        {"do": "store", "side": 0, "records": [book.keep(record) for record in many[2:5]]},
        {"do": "wake", "side": 0},
        {"do": "close", "side": 0},
        {"do": "gone", "side": 1},
        limits=IN_PARTS | BY_TABLES,
        open=True,
    )
    book.exchange(
        "parts need the offer of both sides: else what does not fit ends the exchange",
        (many[:5], []),
        TAGS,
        each=({"limits": IN_PARTS}, {}),
    )


def refusals(book: Book) -> None:
    one = book.exchange("the exchange that refusals change", ([link(1), link(2)], []), LINKS)
    two = one["said"][0][TRANSFER]["items"]
    raws = [b64a.decode(item["record"]) for item in two]
    name = link(1).hash
    empty = b64a.encode(blake3(b"lace-advertisement-empty/v1").digest())
    setup: list[tuple[str, str, Callable[[list[Json]], object]]] = [
        ("no module", "interlace.phase", lambda h: h[SETUP]["items"].pop(0)),
        ("no operand", "interlace.phase", dropping(SETUP, "ExchangeOperand")),
        ("two operands", "interlace.phase", adding(SETUP, "ExchangeOperand('0','R.x','Opq_a','selector')")),
        ("both sides claim one index", "policy.operand", replacing(SETUP, "Operand('0'", "Operand('1'")),
        ("an index that there is not", "policy.operand", replacing(SETUP, "Operand('0'", "Operand('2'")),
        ("an origin that was not assigned", "policy.origin", replacing(SETUP, "'Opq_", "'Opq_~")),
        ("a verifier as origin, not proven", "policy.origin", replacing(SETUP, _origin(one), KEY.verifier)),
        ("a facet that there is not", "policy.facet", replacing(SETUP, "'selector'", "'prepared'")),
        ("a facet that is not exchanged", "policy.facet", replacing(SETUP, "'selector'", "'expose'")),
        ("another module than the one that was sent", "policy.module-id", replacing(SETUP, "'R.", "'R.x")),
        ("a module that is not canonical", "lacegram.not-canonical", saying(LINKS.text.replace(" :- ", " :-  ", 1).encode())),
        ("a module that defines MaySend", "lacegram.reserved", saying(_sorted("MaySend(P) :- Have(P).\n" + LINKS.text))),
        ("a module that only selects what is here", "policy.export", saying(b"SelectHave(P) :- Have(P).\n")),
        ("hello before set-up has ended", "interlace.phase", adding(SETUP, f"HelloTAI('{NOW}')")),
    ]  # fmt: skip
    hello: list[tuple[str, str, Callable[[list[Json]], object]]] = [
        ("another plan", "interlace.plan", replacing(HELLO, "Plan('E.", "Plan('E.x")),
        ("no time", "interlace.hello", dropping(HELLO, "HelloTAI")),
        ("two plans", "interlace.hello", adding(HELLO, "HelloExchangePlan('E.x')")),
        ("two signers", "interlace.hello", adding(HELLO, f"HelloSigner('{KEY.verifier}')", f"HelloSigner('{BOB.verifier}')")),
        ("two times", "interlace.hello", adding(HELLO, "HelloTAI('1700000009:000000000')")),
        ("no tick interval", "interlace.hello", dropping(HELLO, "HelloTickInterval")),
        ("a tick interval of nothing", "interlace.hello", replacing(HELLO, "'10000000000'", "'0'")),
        ("a limit that is no number", "interlace.hello", adding(HELLO, "HelloLimit('max_loop_iterations','-1')")),
        ("no record format in common", "interlace.format", replacing(HELLO, "'H3'", "'H9'")),
        ("a signer that was not proven", "interlace.signer", adding(HELLO, f"HelloSigner('{KEY.verifier}')")),
        ("a field that the plan needs is not offered", "interlace.schema", dropping(HELLO, "HelloAdvertisedField")),
        ("a fact that there is not", "interlace.block", adding(HELLO, "HelloWorld('x')")),
        ("a fact with a value too many", "interlace.block", adding(HELLO, "HelloRecordFormat('H3','H3')")),
        ("a value that is too long", "interlace.block", adding(HELLO, f"HelloLimit('{'x' * 1025}','1')")),
        ("a fact with a blank in it", "interlace.block", adding(HELLO, "HelloLimit('foo', '1')")),
    ]  # fmt: skip
    loop: list[tuple[str, str, Callable[[list[Json]], object]]] = [
        ("a claim of being allowed", "interlace.block", adding(ADVERTISE, f"MaySend('{name}')")),
        ("a request while advertising", "interlace.phase", adding(ADVERTISE, f"MayRequest('{name}')")),
        ("advertised in another's name", "interlace.source", adding(ADVERTISE, f"Advertised('{link(3).hash}','{KEY.verifier}')")),
        ("a field of a record that is not advertised", "interlace.block", adding(ADVERTISE, f"AdvertisedField('{link(3).hash}','{_origin(one)}','App','0','x')")),
        ("advertised is no record", "interlace.block", adding(ADVERTISE, f"Advertised('{KEY.verifier}','{_origin(one)}')")),
        ("a summary and a listing at once", "interlace.block", adding(ADVERTISE, f"AdvertisementPartition('','0','{empty}')")),
        ("a tick that is not aligned", "interlace.tick", adding(ADVERTISE, "TickReady('1700000000:000000001')")),
        ("a tick before the start", "interlace.tick", adding(ADVERTISE, "TickReady('1699999990:000000000')")),
        ("a question about no partition", "interlace.summary", adding(ASK, "ListAdvertisementPartition('!')")),
        ("a question deeper than agreed", "limit.exceeded", adding(ASK, f"NarrowAdvertisementPartition('{'a' * 12}')")),
        ("a record that was not asked for", "interlace.unasked", sending(*raws, link(3).raw)),
        ("a record a second time", "interlace.unasked", sending(*raws, raws[0])),
        ("a record while advertising", "interlace.phase", lambda h: h[ADVERTISE]["items"].append(two[0])),
        ("not available, and was not asked for", "interlace.unasked", adding(TRANSFER, f"NotAvailable('{link(3).hash}')")),
        ("a record with one bit flipped is rejected, the other arrives", "record.hash-mismatch", sending(raws[0][:-1] + bytes([raws[0][-1] ^ 1]), raws[1])),
    ]  # fmt: skip
    for why, code, change in (*setup, *hello, *loop):
        book.refusal(why, code, one, change)
    many = [link(n) for n in range(12)]
    coarse = book.exchange("summaries that refusals change", (many, []), LINKS)
    answer = 4
    summaries: list[tuple[str, str, Callable[[list[Json]], object]]] = [
        ("a count that is no number", "interlace.summary", replacing(ADVERTISE, "'12'", "'012'")),
        ("a root that is no root", "interlace.summary", replacing(ADVERTISE, "')", "0')")),
        ("a partition of another length than agreed", "interlace.summary", replacing(ADVERTISE, "('',", "('a',")),
        ("two summaries of one partition", "interlace.summary", adding(ADVERTISE, f"AdvertisementPartition('','1','{empty}')")),
        ("more promised than listed", "interlace.listing", replacing(ADVERTISE, "'12'", "'13'")),
        ("another root than that of the listing", "interlace.listing", lambda h: facts(h, ADVERTISE).__setitem__(0, f"AdvertisementPartition('','12','{empty}')")),
        ("one record less than promised", "interlace.listing", lambda h: facts(h, answer).__delitem__(slice(0, 4))),
        ("another claim than promised", "interlace.listing", replacing(answer, "'links/7'", "'links/8'")),
    ]  # fmt: skip
    for why, code, change in summaries:
        book.refusal(why, code, coarse, change)
    placed = book.exchange("places that refusals change", ([], many), LINKS, limits=BY_PLACES)
    request = answer + 2
    places: list[tuple[str, str, Callable[[list[Json]], object]]] = [
        ("a place after the last one", "interlace.request", replacing(request, "'12'", "'13'")),
        ("a span of nothing", "interlace.request", replacing(request, "'0'", "'12'")),
        ("a place that is no number", "interlace.request", replacing(request, "'0'", "'00'")),
        ("spans that share a place", "interlace.request", adding(request, "RequestListed('11','12')")),
    ]  # fmt: skip
    for why, code, change in places:
        book.refusal(why, code, placed, change)
    book.refusal("a place, and nobody offered any", "interlace.phase", one, adding(REQUEST, "RequestListed('0','1')"))  # fmt: skip
    parts = book.exchange("parts that refusals change", ([tagged(n) for n in range(7)], []), TAGS, limits=IN_PARTS)  # fmt: skip
    deferrals: list[tuple[str, str, Callable[[list[Json]], object]]] = [
        ("a number put off that is no number", "interlace.listing", replacing(ADVERTISE, "('5')", "('05')")),
        ("nothing put off, and it is said", "interlace.listing", replacing(ADVERTISE, "('5')", "('0')")),
        ("two numbers put off", "interlace.listing", adding(ADVERTISE, "AdvertisementsDeferred('4')")),
        ("more put off than agreed", "limit.exceeded", replacing(ADVERTISE, "('5')", "('101')")),
        ("as much put off as before", "interlace.listing", replacing(answer, "('3')", "('5')")),
        ("less put off than listed", "interlace.listing", replacing(answer, "('3')", "('4')")),
        ("more listed than put off", "interlace.listing", replacing(ADVERTISE, "('5')", "('1')")),
        ("a question for what was not put off", "interlace.phase", adding(ASK, "ListDeferredAdvertisements()")),
    ]  # fmt: skip
    for why, code, change in deferrals:
        book.refusal(why, code, parts, change)
    book.refusal("parts, and nobody offered any", "interlace.phase", one, adding(ADVERTISE, "AdvertisementsDeferred('1')"))  # fmt: skip
    narrowed = book.exchange("narrowing that refusals change", (many, many[1:]), LINKS)
    listing = answer + 2
    other = next(record.hash for record in many if record.hash[2] != many[0].hash[2])
    deeper: list[tuple[str, str, Callable[[list[Json]], object]]] = [
        ("children that do not add up", "interlace.summary", replacing(answer, "'1'", "'2'")),
        ("a child of a partition that nobody asked about", "interlace.summary", adding(answer, f"AdvertisementPartition('aa','0','{empty}')")),
        ("a parent among the children", "interlace.summary", adding(answer, f"AdvertisementPartition('','0','{empty}')")),
        ("a record outside the partition that was asked for", "interlace.listing", adding(listing, f"Advertised('{other}','{_origin(narrowed)}')")),
    ]  # fmt: skip
    for why, code, change in deeper:
        book.refusal(why, code, narrowed, change)


def _origin(case: Json) -> str:
    line: str = case["said"][0][SETUP]["items"][1]["facts"][0]
    return line.split("'")[5]


def _sorted(text: str) -> bytes:
    return "".join(sorted(text.splitlines(keepends=True))).encode()


# --- advertisements and roots, from the definition alone ---


def digest_of(text: str) -> bytes:
    return blake3(b"lace-advertisement-record/v1" + text.encode()).digest()


def check_of(digests: dict[str, str]) -> bytes:
    """The digest of a table, from the definition alone."""
    characters = b64a.ALPHABET.decode()
    here = {record: b64a.decode(text) for record, text in digests.items()}
    groups = b""
    for first in characters:
        contents = b""
        for second in characters:
            inside = [r for r in here if r.endswith(".H3") and r[2:4] == first + second]
            inside.sort(key=lambda r: (r[2:], r[0]))
            content = b"".join(here[record] for record in inside)
            contents += len(inside).to_bytes(4, "big")
            contents += blake3(b"lace-advertisement-content/v1" + content).digest()
        groups += blake3(b"lace-advertisement-group/v1" + contents).digest()
    odd = sorted(r.encode() + b"\n" + d for r, d in here.items() if not r.endswith(".H3"))
    return blake3(b"lace-advertisement-table/v1" + groups + b"".join(odd)).digest()


def root_of(digests: Iterable[bytes]) -> bytes:
    empty = blake3(b"lace-advertisement-empty/v1").digest()
    row = [blake3(b"lace-advertisement-leaf/v1" + leaf).digest() for leaf in sorted(digests)]
    size = 1
    while size < len(row):
        size *= 2
    row += [empty] * (size - len(row))
    while len(row) > 1:
        row = [
            blake3(b"lace-advertisement-node/v1" + row[i] + row[i + 1]).digest()
            for i in range(0, len(row), 2)
        ]
    return row[0]


def advertisements() -> Json:
    tagged = build_plex(
        group="u", app="ding", name="tags", tai="0000000001:000000000",
        extras=[("Tag", f"{n}") for n in range(11)] + [("Tåg", "it's \\ ünïcode")],
    )  # fmt: skip
    four = ["App", "Group", "Name", "Type"]
    cases = [
        ("the one of an independent program", PLEX, str(KEY.verifier), four),
        ("no field at all", PLEX, "Opq_a", []),
        ("all fields", PLEX, "Opq_a", None),
        ("a field that the record does not have", PLEX, "Opq_a", ["Group", "Tag"]),
        ("names are told apart by case", PLEX, "Opq_a", ["group", "Group"]),
        ("the tenth after the second, and quotes", tagged, "Opq_a", ["Tag", "Tåg"]),
        ("a Seal has its own fields too", sealed(KEY, "ding", "links/1"), "Opq_a", ["Signed-By", "Type"]),
        ("a Blob has few", build_blob(b"hello"), "Opq_a", None),
    ]  # fmt: skip
    adverts = []
    for why, record, source, schema in cases:
        chosen = [f for f in fields(record) if schema is None or f[0] in schema]
        chosen.sort(key=lambda f: (f[0].encode(), f[1]))
        lines = [fact_line("Advertised", (record.hash, source))]
        lines += [
            fact_line("AdvertisedField", (record.hash, source, name, str(index), value))
            for name, index, value in chosen
        ]
        text = "".join(f"{line}\n" for line in lines)
        adverts.append({
            "why": why, "record": b64a.encode(record.raw), "source": source, "schema": schema,
            "canonical": lines, "digest": b64a.encode(digest_of(text)),
        })  # fmt: skip
    roots = []
    for count in (0, 1, 2, 3, 4, 5, 8, 9):
        digests = [blake3(bytes([n])).digest() for n in range(count)]
        roots.append({
            "digests": [b64a.encode(leaf) for leaf in digests],
            "root": b64a.encode(root_of(digests)),
        })  # fmt: skip
    name = b64a.encode(blake3(b"0").digest())
    spread = {f"P.{b64a.encode(blake3(bytes([n])).digest())}.H3": n for n in range(3)}
    beside = {f"{letter}.{name}.H3": n for n, letter in enumerate("SPB")}
    near = {f"P.{name[:2]}{character}{name[3:]}.H3": n for n, character in enumerate("9a0~")}
    tables = [
        {"why": why, "digests": made, "check": b64a.encode(check_of(made))}
        for why, numbers in (
            ("nothing", {}),
            ("three partitions", spread),
            ("records of one hash: by type letter", beside),
            ("one partition: by hash", near),
            ("records of another format", near | {f"P.{name}.H9": 7, "S.b.H9": 8, "P.a.X": 9}),
        )
        for made in [{r: b64a.encode(blake3(bytes([n])).digest()) for r, n in numbers.items()}]
    ]
    return {"advertisements": adverts, "roots": roots, "tables": tables}


def files() -> dict[str, Json]:
    book = Book()
    exchanges(book)
    refusals(book)
    content = {
        "about": "Whole exchanges: what each side says, phase by phase, and what comes of it.",
        "records": book.records,
        "exchanges": book.exchanges,
        "refusals": book.refusals,
    }
    return {"exchanges.json": content, "advertisements.json": advertisements()}
