"""The pages on the protocol say what the code does: examples, names, numbers, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import protocol_page
from lace import b64a, limits
from lace.datalog.ast import BUILTINS
from lace.errors import Code
from lace.interlace import facts, negotiate, parameters, sketch, sketching, summary
from lace.kit import courses, misbehaviours, playing
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.record import grammar
from lace.serving.grants import ServerLimits
from lace.stream import items, packing
from lace.transport import address
from lace.vocabulary import VOCABULARY

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "protocol").glob("*.md"))
TEXT = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
ALL = "\n".join(TEXT.values())


def blocks(name: str) -> list[str]:
    return re.findall(r"^ *```text\n(.*?)^ *```", TEXT[name], flags=re.MULTILINE | re.DOTALL)


def test_every_domain_of_the_source_is_in_the_table_and_no_other() -> None:
    assert protocol_page.domains_in_source() == set(protocol_page.DOMAINS)


def test_the_alphabet_is_the_one_of_the_code() -> None:
    assert b64a.ALPHABET.decode() + "\n" in blocks("records.md")


def test_the_example_of_a_plan_can_be_computed_again() -> None:
    rules, transcript = blocks("policy.md")[1:3]
    module: PolicyModule = module_from_text(rules)
    parties = [Party(index=index, module=module) for index in (0, 1)]
    plan = ExchangePlan(label_operands(*parties))
    assert module.text == rules
    assert plan.transcript == transcript
    digests = [b64a.encode(party.origin_digest()) for party in parties]
    said = f"`{module.id}`. The origin digests begin with `{digests[0][0]}` and `{digests[1][0]}`"
    assert said in TEXT["policy.md"]
    assert f"`{plan.id}`" in TEXT["policy.md"]


@pytest.mark.parametrize(
    ("page", "mark"),
    [
        ("streams.md", items._KNOT),
        ("streams.md", items._PIECE),
        ("streams.md", items._RECORD),
        ("streams.md", packing.MARK),
        ("records.md", grammar.MARK),
    ],
)
def test_marks_are_given_in_bytes(page: str, mark: bytes) -> None:
    assert f"`{mark.hex(' ').upper()}`" in TEXT[page]


def test_every_code_that_a_page_names_exists() -> None:
    named = set(
        re.findall(r"`((?:iltp|interlace|policy|lacegram|limit|serve|record)\.[a-z-]+)`", ALL)
    )
    assert len(named) > 25
    assert named <= {code.value for code in Code}


def test_every_predicate_that_a_page_names_exists() -> None:
    known = {entry.name for entry in VOCABULARY} | {*BUILTINS}
    made_up = {"P", "A", "Name", "Theirs", "Prefix", "H", "ILTP"}
    named = set(re.findall(r"\b([A-Z][A-Za-z]+)\(", ALL)) | set(
        re.findall(r"`([A-Z][A-Za-z]+)/[0-9]`", ALL)
    )
    assert named - made_up <= known
    assert {entry.name for entry in VOCABULARY} <= named  # the tables have them all


def test_numbers_are_those_of_the_code() -> None:
    defaults = limits.DEFAULT_LIMITS
    choices = parameters.DEFAULT_PARAMETERS
    for page, said in (
        ("streams.md", f"at most {defaults.stream_line_bytes:,} bytes without LF"),
        ("streams.md", f"more than {defaults.peer_lacegram_bytes:,} bytes are refused"),
        ("tables.md", f"of a resource | 0 to {defaults.peer_lacegram_bytes:,} |"),
        ("streams.md", f"1 to {limits.FIXED.packed_bytes:,}"),
        ("streams.md", f"for {ServerLimits().idle_seconds:,} seconds (`idle_seconds`)"),
        ("streams.md", f"at most {address._LONGEST_UNIX_PATH} bytes"),
        ("streams.md", f"is {address._PORTS[address.Scheme.TCP]} where"),
        ("streams.md", f"up to\n{limits.FIXED.websocket_message_bytes >> 20} MiB"),
        ("streams.md", f"at most {limits.FIXED.hello_bytes >> 20} MiB"),
        ("exchange.md", f"`clock_seconds` ({defaults.clock_seconds};"),
        ("exchange.md", f"`round_seconds` ({defaults.round_seconds},"),
        ("exchange.md", f"after {defaults.transfer_phase_bytes >> 20} MiB"),
        ("exchange.md", f"lists up to {choices.list_up_to} advertisements"),
        ("exchange.md", f"up to {choices.summarize_up_to} changed partitions"),
        ("exchange.md", f"listing of up to {choices.list_up_to} advertisements"),
        ("exchange.md", f"up to {choices.list_at_once:,} where it has"),
        ("exchange.md", f"requests up to {choices.request_at_once:,} at once"),
        ("exchange.md", f"both tables have {choices.sketch_from} advertisements"),
        ("exchange.md", f"asks for {sketch._FIRST_CELLS} cells first"),
        ("exchange.md", f"up to {choices.tell_at_once:,} advertisements with a table"),
        ("exchange.md", f"at most {sketching._CELLS_AT_ONCE} in one fact"),
        ("exchange.md", f"at most {sketching._ITEMS_AT_ONCE} in one fact"),
        ("exchange.md", f"There are {sketch.MOST_CELLS:,} cells in {sketch._BLOCKS} blocks"),
        ("exchange.md", f"at most {summary.LONGEST_PREFIX} B64A characters"),
        ("facts.md", f"at most {facts._LONGEST_DECIMAL}."),
        ("facts.md", f"At most {defaults.rules} rules, {defaults.body_atoms} parts"),
        ("facts.md", f"at most {defaults.arity} of them, of at most {defaults.value_bytes} bytes"),
        ("records.md", f"a header line of {defaults.header_line_bytes} bytes"),
        ("records.md", f"{defaults.extra_headers} extras, {defaults.blob_bytes >> 20} MiB of data"),
        ("coordinates.md", f"at most {defaults.urc_bytes} bytes"),
        ("tables.md", f"1 to {negotiate._LONGEST_TICK:,} (nanoseconds)"),
        ("tables.md", f"`0`, or digits without a leading zero, at most {facts._LONGEST_DECIMAL} |"),
    ):
        assert said in TEXT[page], (page, said)


def test_every_vector_that_a_page_names_exists() -> None:
    named = set(re.findall(r"`(?:vectors/)?([a-z0-9-]+\.json)`", ALL))
    there = {path.name for path in (DOCS.parent / "vectors").glob("*.json")}
    assert named - {"expected.json"} <= there  # which the kit writes
    assert there - named == {"independent.json"}


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXT[page.name]):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.is_file(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), target


def test_the_matrix_has_every_kind_and_nothing_is_wrong() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", TEXT["matrix.md"], flags=re.MULTILINE)
    named = {name for name, _, _ in rows}
    assert named >= {*misbehaviours.kinds(), "an honest contact", "seed 29"}
    assert named >= {f"course: {name}" for name in courses.COURSES}
    assert [row for row in rows if row[1:] != ("yes", "yes")] == []


def test_the_page_on_the_kit_names_every_check() -> None:
    source = "".join(
        Path(str(module.__file__)).read_text(encoding="utf-8") for module in (playing, courses)
    )
    checks = re.findall(r'"check": "([a-z ]+)"|_(?:compared|check)\(\s*"([a-z ]+)"', source)
    named = {one or other for one, other in checks}
    assert len(named) == 15
    tables = re.findall(
        r"^\| Check \| Right if \|\n\|---\|---\|\n((?:\|.*\n)+)",
        TEXT["conformance-kit.md"],
        flags=re.MULTILINE,
    )
    assert named == set(re.findall(r"^\| `([a-z ]+)` \|", "".join(tables), flags=re.MULTILINE))
