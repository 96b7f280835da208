"""The committed vectors: the same cases for people, for this engine and for others."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from showing import showing

from lace import b64a
from lace.crypto import SigningKey, native, reference
from lace.datalog.source import parse_facts
from lace.errors import Code, EncodingError, ProtocolError
from lace.ids import Verifier
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet, module_from_text
from lace.policy.origin import Operand, Origin, Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record import (
    Plex,
    Seal,
    build_blob,
    build_plex,
    facts,
    inspect_record,
    seal,
    validate_record,
)
from lace.rules import LocalFacts
from lace.stream.proof import Meeting, check_proof
from lace.text import fact_line
from lace.urc import Coordinate, HashAddress, parse_urc

VECTORS = Path(__file__).parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def raw_of(case: dict[str, str]) -> bytes:
    return case["record"].encode() if "record" in case else base64.b64decode(case["record_b64"])


def by(key: str) -> Any:
    return lambda case: case[key] if isinstance(case, dict) else None


@pytest.mark.req("006-B64-01")
@pytest.mark.parametrize("case", load("b64a.json")["valid"], ids=by("hex"))
def test_b64a_valid(case: dict[str, str]) -> None:
    assert b64a.encode(bytes.fromhex(case["hex"])) == case["text"]
    assert b64a.decode(case["text"]).hex() == case["hex"]


@pytest.mark.parametrize("case", load("proofs.json"), ids=by("why"))
def test_proofs(case: dict[str, Any]) -> None:
    """A proof of identity names the set-up of the connection that it is shown on (L20)."""
    judge = dict(case["judge"])
    for name in ("hello", "peer_hello"):
        judge[name] = judge[name].encode()
    judge["addresses"] = tuple(judge["addresses"])
    meeting = Meeting(**judge)
    assert meeting.setup(by_peer=True) == case["setup"]
    if case["proves"] is not None:
        assert check_proof(case["record"].encode(), meeting) == case["proves"]
        return
    with pytest.raises(ProtocolError) as caught:
        check_proof(case["record"].encode(), meeting)
    assert caught.value.code is Code.ILTP_PROOF


@pytest.mark.req("006-B64-02")
@pytest.mark.parametrize("case", load("b64a.json")["invalid"], ids=by("why"))
def test_b64a_invalid(case: dict[str, str]) -> None:
    with pytest.raises(EncodingError) as caught:
        b64a.decode(case["text"])
    assert caught.value.code == case["code"]


@pytest.mark.req("010-REC-03", "010-REC-05", "010-REC-09", "009-SIG-01", "009-SIG-02")
def test_independent_program_agrees() -> None:
    given = load("independent.json")
    assert build_blob(b"").hash == given["empty_blob"]
    assert build_blob(b"hello").hash == given["hello_blob"]
    plex = given["plex"]
    made = build_plex(
        group=plex["group"],
        app=plex["app"],
        name=plex["name"],
        tai=plex["tai"],
        data=plex["data"].encode(),
    )
    assert made.hash == plex["hash"]
    key = SigningKey.from_secret_text(given["key"]["secret"])
    assert key == SigningKey(bytes.fromhex(given["key"]["secret_bytes"]))
    assert key.reveal() == given["key"]["secret"]
    assert key.verifier == given["key"]["verifier"]
    assert key._scalar.hex() == given["key"]["scalar"]
    sealed = seal(made, key, aux=bytes.fromhex(given["seal"]["aux"]))
    assert sealed.signature == given["seal"]["signature"]
    assert sealed.hash == given["seal"]["hash"]
    assert validate_record(sealed.raw).value == sealed


@pytest.mark.req("009-SIG-06")
@pytest.mark.parametrize("provider", [native, reference], ids=["native", "reference"])
@pytest.mark.parametrize("case", load("signatures.json"), ids=by("why"))
def test_signatures(provider: Any, case: dict[str, Any]) -> None:
    x, message, signature = (
        bytes.fromhex(case[key]) for key in ("verifier_x", "message", "signature")
    )
    assert provider.verify(x, message, signature) is case["valid"]


@pytest.mark.req("010-REC-01", "010-REC-07", "010-REC-13", "020-FAC-02", "020-FAC-03", "020-FAC-04")
@pytest.mark.parametrize("case", load("records-valid.json"), ids=by("name"))
def test_valid_records(case: dict[str, Any]) -> None:
    raw = raw_of(case)
    record = validate_record(raw).unwrap()
    assert record.hash == case["hash"]
    assert inspect_record(raw, provider=reference).fault is None
    if "facts" in case:
        assert sorted(fact_line(fact[0], fact[1:]) for fact in facts(record)) == case["facts"]


INVALID_RECORDS = {
    "a letter that is no record type": "010-REC-01 010-REC-02",
    "a digest one character short": "010-REC-02",
    "one bit of the data flipped": "010-REC-02",
    "one character of a Group changed": "010-REC-02",
    "Data-Length smaller than the data": "010-REC-03",
    "a line break after the data": "010-REC-03",
    "Data-Length with a leading zero": "010-REC-04",
    "Data-Length with a sign": "010-REC-04",
    "Data-Length in Arabic-Indic digits": "010-REC-04",
    "Data-Length with a blank behind": "010-REC-04",
    "App before Group": "010-REC-05",
    "Group twice": "010-REC-05",
    "CRLF line ends": "010-REC-06",
    "tab in a value": "010-REC-06",
    "no space after the colon": "010-REC-06",
    "empty value": "010-REC-06",
    "space in a name": "010-REC-07",
    "header line of 1025 bytes": "010-REC-08",
    "value not in NFC": "010-REC-08",
    "name not in NFC": "010-REC-08",
    "signature of another Plex": "010-REC-09",
    "Signature before Signed-By": "010-REC-09",
    "unsorted extras": "010-REC-10",
    "extras sorted without regard to case": "010-REC-10",
    "Type as an extra": "010-REC-10",
    "TAI with too few digits": "010-REC-11",
    "TAI with a sign": "010-REC-11",
    "Data-Length over the limit": "010-REC-12",
}


@pytest.mark.parametrize(
    "case", showing({case["name"]: case for case in load("records-invalid.json")}, INVALID_RECORDS)
)
def test_invalid_records(case: dict[str, str]) -> None:
    raw = raw_of(case)
    outcome = validate_record(raw)
    assert (outcome.value, outcome.code) == (None, case["code"])
    assert outcome.detail
    fault = inspect_record(raw, provider=reference).fault
    assert fault is not None
    assert fault.code == case["code"]


@pytest.mark.req("010-REC-09", "020-FAC-01")
def test_invalid_seals_may_hold_a_valid_plex() -> None:
    """The reason is exact: a bad signature says nothing about the Plex inside."""
    case = next(c for c in load("records-invalid.json") if c["name"] == "signature of zeros")
    raw = raw_of(case)
    inner = raw[raw.index("🖧: P".encode()) :]
    assert isinstance(validate_record(inner).value, Plex)
    assert not isinstance(validate_record(raw).value, Seal)


VALID_PLACES = {
    "//u//docs//index.html": "110-COO-01 110-COO-04 110-URC-01",
    "//u//ding//links/server-one": "110-COO-01 110-COO-02 110-COO-04",
    "//eu/lab//chat/message//room-7/1": "110-COO-02 110-COO-03 110-COO-04",
    "//eu/lab//chat//message/room-7/1": "110-COO-02 110-COO-03 110-COO-04",
    "//eu/lab/research//forum//post/2026/06/14/1": "110-COO-02 110-COO-04",
    "//g//a//k/|/plex": "110-URC-01",
    "////P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3": "110-URC-01",
}


@pytest.mark.req("110-COO-11")
@pytest.mark.parametrize(
    "case", showing({case["text"]: case for case in load("urc.json")["valid"]}, VALID_PLACES)
)
def test_urc_valid(case: dict[str, Any]) -> None:
    parsed = parse_urc(case["text"])
    assert str(parsed) == case["text"]
    if case["kind"] == "hash":
        assert parsed == HashAddress(case["hash"])
        return
    assert not isinstance(parsed, HashAddress)
    assert isinstance(parsed, Coordinate) is (case["kind"] == "coordinate")
    assert (parsed.group, parsed.app, parsed.name) == (case["group"], case["app"], case["name"])
    selector = getattr(parsed, "selector", None)
    if case["selector"] is None:
        assert selector is None
    else:
        for key, value in case["selector"].items():
            assert getattr(selector, key) == value


INVALID_PLACES = {
    "App is missing": "110-COO-06",
    "Name is missing": "110-COO-06",
    "a selector without a Name": "110-COO-06",
    "Group begins with a slash": "110-COO-07",
    "App begins with a slash": "110-COO-07",
    "Name begins with a slash": "110-COO-07",
    "Name not in NFC": "110-COO-08",
    "a control character": "110-COO-08",
    "segment | in Group": "110-COO-09",
    "four slashes, but no hash": "110-URC-04",
    "a verifier is no record": "110-URC-04",
    "an unknown kind": "110-VER-05",
    "a malformed TAI": "110-VER-05",
    "a Seal's hash under plex": "110-VER-05",
    "a malformed verifier": "110-VER-05",
}


@pytest.mark.parametrize("case", showing(load("urc.json")["invalid"], INVALID_PLACES))
def test_urc_invalid(case: dict[str, str]) -> None:
    with pytest.raises(EncodingError) as caught:
        parse_urc(case["text"])
    assert caught.value.code == case["code"]


@pytest.mark.req("040-PLN-03", "040-PLN-12")
@pytest.mark.parametrize("case", load("policy.json")["plans"], ids=by("why"))
def test_plans(case: dict[str, Any]) -> None:
    first, second = (
        Operand(index=index, module=module_from_text(text), origin=Origin(origin))
        for index, (text, origin) in enumerate(zip(case["operands"], case["origins"], strict=True))
    )
    plan = ExchangePlan((first, second))
    assert plan.transcript == case["transcript"]
    assert plan.id == case["id"]


@pytest.mark.req("040-DIS-05", "040-EXP-06", "040-EXP-07", "040-EXP-10")
@pytest.mark.parametrize("case", load("policy.json")["exchanges"], ids=by("why"))
def test_exchanges(case: dict[str, Any]) -> None:
    mine = Party(index=0, module=module_from_text(case["mine"]))
    theirs = Party(
        index=1, module=module_from_text(case["theirs"]), verifier=Verifier(case["viewer"])
    )
    exposure = Exposure(tuple(module_from_text(text, Facet.EXPOSE) for text in case["expose"]))
    source = LocalFacts(parse_facts(case["facts"]))
    policy = ExchangePolicy(ExchangePlan(label_operands(mine, theirs)), 0, source, exposure)
    assert sorted(policy.visible) == case["visible"]
    assert sorted(row[0] for row in policy.may_send) == case["may_send"]
    assert sorted(row[0] for row in policy.may_request) == case["may_request"]
