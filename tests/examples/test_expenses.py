"""The expense book: three people, three roles, two of them offline, and what each may do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from command import lace_inside

import expenses
import lace
from lace import blocking

ROLES = (
    "--writes", "treasurer=claim,decision,payment", "--writes", "member=claim", "--writes",
    "auditor=",
)  # fmt: skip


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a book in which Ann is treasurer, and a copy for everybody else."""
    tmp_path = tmp_path_factory.mktemp("books")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
        make_books(tmp_path)
        yield tmp_path


@pytest.fixture
def club(books: Path, tmp_path: Path) -> Path:
    """Return books of one's own, in which much may be written."""
    return Path(shutil.copytree(books, tmp_path / "club"))


def make_books(tmp_path: Path) -> None:
    ring = lace.Keyring()
    for name in ("ann", "bob", "cy", "dan"):
        ring.add(name, demo=True)
    done = lace_inside(
        "room", "new", tmp_path / "ann", "//club//expenses//", "--key", "ann", "--removed", "stays",
        "--places", "own", *ROLES,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with lace.open(tmp_path / "ann") as book:
        blocking.admit(book, ring.get("bob").verifier, "member", under="bob/")
        blocking.admit(book, ring.get("cy").verifier, "auditor", under="cy/")
        blocking.admit(book, ring.get("dan").verifier, "treasurer", under="dan/")
    settings = (tmp_path / "ann" / "lace.toml").read_text(encoding="utf-8")
    for name in ("bob", "cy", "dan"):
        (tmp_path / name).mkdir()
        own = settings.replace('key = "ann"', f'key = "{name}"')
        assert own != settings
        (tmp_path / name / "lace.toml").write_text(own, encoding="utf-8")
        lace.open(tmp_path / name / "records.lace").close()
        meet(tmp_path, "ann", name)


def meet(club: Path, one: str, other: str) -> None:
    with lace.open(club / one) as left, lace.open(club / other) as right:
        blocking.sync(left, right)


def run(club: Path, who: str, *words: str) -> int:
    return expenses.main(["--book", str(club / who), *words])


def states(club: Path, who: str) -> dict[str, str]:
    with lace.open(club / who) as local:
        return {claim.what: claim.state for claim in expenses.ExpenseBook(local).claims()}


def test_a_claim_from_its_beginning_to_its_end(
    club: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(club, "bob", "claim", "12.50", "Train", "--spent", "2026-01-31") == 0
    claim = capsys.readouterr().out.strip()
    assert states(club, "ann") == {}
    meet(club, "ann", "bob")
    assert run(club, "ann", "approve", claim) == 0
    assert run(club, "ann", "pay", claim, "bank 17") == 0
    assert states(club, "ann") == {"Train": "paid"}
    assert states(club, "bob") == {"Train": "open"}  # Bob has not heard of it yet
    meet(club, "ann", "bob")
    meet(club, "bob", "cy")
    assert states(club, "bob") == states(club, "cy") == {"Train": "paid"}
    capsys.readouterr()
    assert run(club, "cy", "totals") == 0
    (sums,) = json.loads(capsys.readouterr().out).values()
    assert sums == {"paid": "12.50"}
    assert run(club, "cy", "claims") == 0
    assert json.loads(capsys.readouterr().out)["spent"] == "2026-01-31"


def test_two_people_claim_offline_and_nothing_is_lost(club: Path) -> None:
    assert run(club, "bob", "claim", "1", "Tea") == 0
    assert run(club, "ann", "claim", "2", "Paper") == 0
    meet(club, "bob", "ann")
    assert states(club, "bob") == states(club, "ann") == {"Tea": "open", "Paper": "open"}


@pytest.mark.parametrize(
    ("who", "words", "part"),
    [
        ("cy", ("claim", "5", "Pens"), "you are auditor here"),
        ("bob", ("approve", "S."), "you are member here"),
        ("bob", ("pay", "S.", "bank 1"), "you are member here"),
        ("bob", ("claim", "5.123", "Pens"), "two places"),
        ("bob", ("claim", "-5", "Pens"), "between"),
        ("bob", ("claim", "NaN", "Pens"), "between"),
        ("bob", ("claim", "1e9", "Pens"), "between"),
        ("bob", ("claim", "five", "Pens"), "no amount"),
        ("bob", ("claim", "5", " "), "say what"),
        ("bob", ("claim", "5", "Pens", "--spent", "31.1.2026"), "no day"),
        ("bob", ("claim", "5", "Pens", "--spent", "9999-01-01"), "not come yet"),
        ("ann", ("approve", "S.nothing"), "0 claims"),
        ("ann", ("meet", "nobody"), "nobody"),
    ],
)
def test_what_is_against_the_rules_is_said(
    club: Path, capsys: pytest.CaptureFixture[str], who: str, words: tuple[str, ...], part: str
) -> None:
    assert run(club, who, *words) == 1
    assert part in capsys.readouterr().err


def test_nobody_decides_about_their_own_claim(
    club: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(club, "dan", "claim", "9", "Lamp")
    assert run(club, "dan", "approve", "dan/") == 1
    assert "ask another treasurer" in capsys.readouterr().err
    # Another program of Dan's that does not ask: everybody's book passes over it.
    with lace.open(club / "dan") as local:
        claim = expenses.ExpenseBook(local).find("dan/")
        fields = {"Claim": claim.hash, "Verdict": "approved"}
        forged = expenses.DECISION.build("dan/x", "", fields, key=local.key)
        blocking.store(local, [forged])
    meet(club, "dan", "ann")
    assert states(club, "ann") == {"Lamp": "open"}
    assert run(club, "ann", "pay", "dan/", "bank 1") == 1
    assert run(club, "ann", "refuse", "dan/", "--reason", "We have lamps.") == 0
    assert states(club, "ann") == {"Lamp": "refused"}


def test_a_decision_of_a_member_is_none_and_does_not_travel(club: Path) -> None:
    run(club, "bob", "claim", "50", "Party")
    with lace.open(club / "bob") as local:
        claim = expenses.ExpenseBook(local).find("bob/")
        fields = {"Claim": claim.hash, "Verdict": "approved"}
        forged = expenses.DECISION.build("bob/x", "", fields, key=local.key)
        blocking.store(local, [forged])
    meet(club, "bob", "ann")
    assert states(club, "bob") == states(club, "ann") == {"Party": "open"}
    with lace.open(club / "ann") as local:
        assert blocking.get(local, f"////{forged.hash}") is None


def test_what_a_treasurer_decided_stands_after_they_left(club: Path) -> None:
    run(club, "bob", "claim", "7", "Stamps")
    meet(club, "bob", "dan")
    assert run(club, "dan", "approve", "bob/") == 0
    meet(club, "dan", "ann")
    with lace.open(club / "ann") as local:
        blocking.remove(local, lace.Keyring().get("dan").verifier)
        book = expenses.ExpenseBook(local)
        assert [claim.state for claim in book.claims()] == ["approved"]
        bob = lace.Keyring().get("bob").verifier
        assert book.totals() == {bob: {"approved": Decimal(7)}}


def test_a_folder_that_is_no_book_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expenses.main(["--book", str(tmp_path / "store.lace"), "claims"]) == 1
    assert "no expense book" in capsys.readouterr().err
