"""A team's expense book: members claim, treasurers decide and pay, auditors read.

The book is the folder of a lace room; ``lace room new`` and ``lace join`` make it. Everybody has
the whole book, works offline, and meets the others with ``expenses.py meet``.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

import lace
from lace import blocking

GROUP, BOOK = "club", "expenses"
MOST = Decimal(100_000)
CLAIM = lace.RecordKind(
    group=GROUP,
    app=f"{BOOK}/claim",
    fields=("Amount", "Spent", "Category"),
    required=("Amount", "Spent"),
    types={"Amount": "decimal", "Data": "text"},
)
DECISION = lace.RecordKind(
    group=GROUP,
    app=f"{BOOK}/decision",
    fields=("Claim", "Verdict"),
    required=("Claim", "Verdict"),
    types={"Data": "text"},
)
PAYMENT = lace.RecordKind(
    group=GROUP,
    app=f"{BOOK}/payment",
    fields=("Claim", "Amount", "Reference"),
    required=("Claim", "Amount", "Reference"),
    types={"Amount": "decimal"},
)
State = Literal["open", "approved", "refused", "paid"]


class Refused(Exception):
    """What was asked for is against the rules of the book; says why."""


@dataclass(frozen=True)
class Claim:
    """One claim, as far as this book knows about it."""

    hash: str
    name: str
    by: str
    amount: Decimal
    spent: str
    category: str
    what: str
    state: State
    reason: str = ""


def read_amount(text: str) -> Decimal:
    """Return an amount of money, or raise ``Refused``."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise Refused(f"{text} is no amount; write it like 12.50") from None
    if not amount.is_finite() or not 0 < amount <= MOST:
        raise Refused(f"an amount lies between 0.01 and {MOST}")
    if amount != amount.quantize(Decimal("0.01")):
        raise Refused(f"{text} has more than two places behind the point")
    return amount


def read_day(text: str) -> str:
    """Return a day as it is written in a claim, or raise ``Refused``."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Refused(f"{text} is no day; write it like 2026-01-31") from None
    if day > datetime.now(UTC).date():
        raise Refused(f"{text} has not come yet")
    return day.isoformat()


class ExpenseBook:
    """The book in one folder, with the key that its settings name."""

    def __init__(self, local: lace.Lace) -> None:
        if local.room is None or local.key is None:
            raise Refused(
                "this folder is no expense book: make one with lace room new, or lace join"
            )
        self._local = local
        self._key = local.key
        self._me: str = local.key.verifier

    # --- who ---

    def _own_place(self, *roles: str) -> str:
        """Return where the owner of the key may write; raise ``Refused`` for other roles."""
        for member in blocking.members(self._local):
            if member.verifier == self._me and member.ended is None:
                if member.role in roles:
                    return member.under or ""
                raise Refused(f"you are {member.role} here; this takes {' or '.join(roles)}")
        raise Refused("you are no member of this book")

    # --- what is written ---

    def claim(self, amount: str, what: str, spent: str, category: str = "other") -> str:
        """Write a claim; return its hash."""
        place = self._own_place("member", "treasurer")
        if not what.strip():
            raise Refused("say what the money was spent on")
        fields = {
            "Amount": str(read_amount(amount)),
            "Spent": read_day(spent),
            "Category": category,
        }
        # A new place for each claim: two devices of one person never write at the same one.
        return self._write(CLAIM, f"{place}{secrets.token_hex(6)}", what, fields)

    def decide(self, claim: str, verdict: Literal["approved", "refused"], reason: str = "") -> str:
        """Write what a treasurer decides about a claim; the newest decision counts."""
        place = self._own_place("treasurer")
        found = self.find(claim)
        if found.by == self._me:
            raise Refused("nobody decides about a claim of their own: ask another treasurer")
        if found.state == "paid":
            raise Refused("this claim is paid already")
        if verdict == "refused" and not reason.strip():
            raise Refused("say why it is refused")
        fields = {"Claim": found.hash, "Verdict": verdict}
        return self._write(DECISION, f"{place}{found.hash}", reason, fields)

    def pay(self, claim: str, reference: str) -> str:
        """Write that an approved claim was paid."""
        place = self._own_place("treasurer")
        found = self.find(claim)
        if found.state != "approved":
            raise Refused(f"this claim is {found.state}; only approved claims are paid")
        if not reference.strip():
            raise Refused("give the reference of the payment")
        fields = {"Claim": found.hash, "Amount": str(found.amount), "Reference": reference}
        return self._write(PAYMENT, f"{place}{found.hash}", "", fields)

    def _write(self, kind: lace.RecordKind, name: str, data: str, fields: dict[str, str]) -> str:
        record = kind.build(name, data, fields, key=self._key)
        blocking.store(self._local, [record])
        return record.hash

    # --- what is read ---

    def claims(self) -> list[Claim]:
        """Return all claims that belong, oldest first, each with its state."""
        # Only what treasurers signed belongs at these two places: the roles of the room see to it.
        decisions: dict[str, list[tuple[str, str, str, str]]] = {}
        for row in self._rows(DECISION, "Claim", "TAI", "Verdict", "Data", "Signed-By"):
            said = (row["TAI"], row["Verdict"], row["Data"], row["Signed-By"])
            decisions.setdefault(row["Claim"], []).append(said)
        paid = {row["Claim"] for row in self._rows(PAYMENT, "Claim")}
        found = []
        for row in self._rows(
            CLAIM, "Hash", "Name", "Signed-By", "Amount", "Spent", "Category", "Data"
        ):
            hash, by = row["Hash"], row["Signed-By"]
            if not row["Amount"]:
                continue  # somebody's program wrote an amount that is none
            others = [said for said in decisions.get(hash, ()) if said[3] != by]
            _, verdict, reason, _ = max(others, default=("", "open", "", ""))
            state: State = "open"
            if verdict == "approved":
                state = "paid" if hash in paid else "approved"
            elif verdict == "refused":
                state = "refused"
            found.append(
                Claim(
                    hash, row["Name"], by, Decimal(row["Amount"]), row["Spent"],
                    row["Category"], row["Data"], state, reason,
                )
            )  # fmt: skip
        return found

    def _rows(self, kind: lace.RecordKind, *columns: str) -> list[dict[str, str]]:
        """Return the newest version at each place, as texts; blank where there is no value."""
        table = blocking.table(self._local, kind, columns, newest=True)
        return [{name: str(value or "") for name, value in row.items()} for row in table]

    def find(self, start: str) -> Claim:
        """Return the claim whose hash or name begins so."""
        fits = [c for c in self.claims() if c.hash.startswith(start) or c.name.startswith(start)]
        if len(fits) != 1:
            raise Refused(f"{len(fits)} claims begin with {start}")
        return fits[0]

    def totals(self) -> dict[str, dict[State, Decimal]]:
        """Return the sums by claimant and state."""
        sums: dict[str, dict[State, Decimal]] = {}
        for claim in self.claims():
            mine = sums.setdefault(claim.by, {})
            mine[claim.state] = mine.get(claim.state, Decimal(0)) + claim.amount
        return sums

    def meet(self, peer: str) -> tuple[int, int]:
        """Interlace with a peer of the settings, or an address; return received and sent."""
        result = blocking.sync(self._local, peer)
        return len(result.received), len(result.sent)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--book", default=".", type=Path, help="its folder (default: this one)")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("claim", help="claim money back")
    add.add_argument("amount")
    add.add_argument("what")
    add.add_argument("--spent", default=datetime.now(UTC).date().isoformat(), metavar="DAY")
    add.add_argument("--category", default="other")
    for verb in ("approve", "refuse"):
        decide = commands.add_parser(verb, help=f"{verb} a claim")
        decide.add_argument("claim")
        decide.add_argument("--reason", default="")
    pay = commands.add_parser("pay", help="note that a claim was paid")
    pay.add_argument("claim")
    pay.add_argument("reference")
    commands.add_parser("claims", help="list all claims, as JSON lines")
    commands.add_parser("totals", help="sums by person and state, as JSON")
    commands.add_parser("meet", help="exchange with others").add_argument("peer")
    chosen = parser.parse_args(arguments)
    try:
        with lace.open(chosen.book) as local:
            book = ExpenseBook(local)
            match chosen.command:
                case "claim":
                    print(book.claim(chosen.amount, chosen.what, chosen.spent, chosen.category))
                case "approve":
                    print(book.decide(chosen.claim, "approved", chosen.reason))
                case "refuse":
                    print(book.decide(chosen.claim, "refused", chosen.reason))
                case "pay":
                    print(book.pay(chosen.claim, chosen.reference))
                case "claims":
                    for claim in book.claims():
                        print(json.dumps(asdict(claim), default=str, ensure_ascii=False))
                case "totals":
                    print(json.dumps(book.totals(), default=str))
                case _:
                    print("{} received, {} sent".format(*book.meet(chosen.peer)))
    except (Refused, lace.LaceError) as error:
        print(f"expenses: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
