"""Commands about policy: the plumbing contract, and what people see."""

from __future__ import annotations

import json
from pathlib import Path

import forge
import pytest
from command import lace

from lace.crypto import SigningKey
from lace.record import build_plex, seal

SELECTOR = "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\nSelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
ALICE = SigningKey(b"a" * 32).verifier


def record(group: str, app: str) -> bytes:
    plex = build_plex(group=group, app=app, name="n", tai="1640995200:000000000")
    return seal(plex, forge.KEY, aux=forge.AUX).raw


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "u").write_text(SELECTOR)
    (tmp_path / "half").write_text("SelectHave(P) :- Have(P).\n")
    (tmp_path / "expose").write_text(
        f"AllowQueryRecord('{ALICE}',P) :- Have(P), Field(P,'App',_,'a').\n"
    )
    (tmp_path / "records").write_bytes(record("u", "a") + record("u", "b") + record("v", "a"))
    (tmp_path / "adverts").write_text(
        "Advertised('P.x.H9','s')\nAdvertisedField('P.x.H9','s','Group','0','u')\nAdvertised('P.y.H9','s')\n"
    )
    return tmp_path


@pytest.mark.req("040-PLN-12", "040-CMP-06")
def test_plan_transcript(folder: Path) -> None:
    arguments = ("plumb", "plan", "transcript", "--operand0", "u", "--operand1", "u", "--origin0", "Opq_3", "--origin1", "Opq_x")  # fmt: skip
    done = lace(*arguments, cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith(
        b"ExchangePlanProfile('lace-040-exchange-plan-v1')\nExchangePlanLowering("
    )
    done = lace(*arguments, "--id", cwd=folder)
    assert done.stdout == b"E.0wlMCB_xupu_BOUlZnSYTP~LIInPS_8hiw8IwZr8E2_\n"
    half = lace(*arguments[:4], "half", *arguments[5:], cwd=folder)
    assert half.returncode == 1
    assert b"policy.export" in half.stdout
    same = lace(*arguments[:-1], "Opq_3", cwd=folder)
    assert same.returncode == 1
    assert b"policy.origin" in same.stderr


@pytest.mark.req("040-LOW-01", "040-LOW-02", "040-EXP-01")
@pytest.mark.parametrize("index", ["0", "1"])
def test_plan_evaluate(folder: Path, index: str) -> None:
    arguments = ("plumb", "plan", "evaluate", "--local", "u", "--peer", "u", "--index", index, "--viewer", ALICE, "--records", "records")  # fmt: skip
    assert lace(*arguments, cwd=folder).stdout == b""
    done = lace(*arguments, "--expose", "expose", "--adverts", "adverts", cwd=folder)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert lines == sorted(lines)
    assert [line.partition("(")[0] for line in lines] == ["MayRequest", "MaySend"]
    assert lines[0] == "MayRequest('P.x.H9')"
    (folder / "records").write_bytes(record("u", "a")[:-1])
    assert lace(*arguments, cwd=folder).returncode == 3


@pytest.mark.req("110-EVT-07")
def test_policy_show(folder: Path) -> None:
    done = lace("policy", "show", "//u//ding//links/")
    assert (
        b"SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding')" in done.stdout
    )
    room = lace(
        "policy", "show", "//n//notes//", "--room", ALICE, "--delegation", "2", "--removed", "stays"
    )
    assert b"Admits(V,D)" in room.stdout
    assert b"LexCompare(C,'<',U)" in room.stdout
    assert lace("policy", "show", "u", cwd=folder).stdout.decode() == SELECTOR
    assert b"Support(T)" in lace("policy", "show", "//u//d//", "--support", "evidence").stdout
    assert b"'Colour'" in lace("policy", "show", "//u//d//", "-f", "Colour=red").stdout
    bad = lace("policy", "show", "//u")
    assert bad.returncode == 2
    assert b"policy.selector" in bad.stderr
    assert lace("policy", "show", "//u//d//", "-f", "Colour").returncode == 2


@pytest.mark.req("040-DIS-01", "040-DIS-05")
def test_policy_audit(folder: Path) -> None:
    done = lace(
        "policy", "audit", "--local", "//u//a//", "--peer", "u", "--records", "records", cwd=folder
    )
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "can see 1 of 3 records" in text
    assert "1 records may be sent" in text
    assert "none was found out" in text
    assert "Advertisements to a peer that proved no key carry" in text
    assert "Opq_" not in text
    exposed = lace(
        "policy", "audit", "--local", "//u//a//", "--peer", "u", "--records", "records",
        "--expose", "expose", "--viewer", ALICE, "--why", "nothing", cwd=folder,
    )  # fmt: skip
    assert "can see 2 of 3 records" in exposed.stdout.decode()
    assert f"Advertisements to {ALICE} carry" in exposed.stdout.decode()
    assert "not here decided" in exposed.stdout.decode()
    told = lace(
        "policy", "audit", "--local", "//u//a//", "--peer", "u", "--records", "records", "--json",
        "--why", "nothing", cwd=folder,
    )  # fmt: skip
    entry = json.loads(told.stdout)
    assert (entry["holds"], entry["why"]["allowed"], entry["why"]["layer"]) == (
        True,
        False,
        "not here",
    )
    assert any("can see 1 of 3 records" in sentence for sentence in entry["sentences"])
    assert lace("policy", "audit", "--local", "//u//a//", "--peer", "u", "--records", "records", "--viewer", "x", cwd=folder).returncode == 2  # fmt: skip
