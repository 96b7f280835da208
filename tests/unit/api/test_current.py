"""The current state: the version that counts, and tables with real types."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lace
from lace import blocking
from lace.crypto.keys import demo_key
from lace.errors import RecordError, UsageError
from lace.record import Seal, build_plex, seal
from lace.values import NoValue, read_value

OWNER, BOB, CAROL = map(demo_key, ("owner", "bob", "carol"))
KIND = lace.RecordKind(
    group="club", app="book/claim", fields=("Amount", "Count", "When"), required=("Title",),
    types={"Amount": "decimal", "Count": "int", "When": "datetime", "Data": "json"},
)  # fmt: skip
ROOM = lace.Room(
    prefix="//club//book//", authority=OWNER.verifier, roles={"chair": ("*",), "guest": ("claim",)}
)
PLACE = "//club//book/claim//1"


def claim(
    by: lace.SigningKey, when: int, name: str = "1", data: bytes = b"{}", **fields: str
) -> Seal:
    plex = build_plex(
        group="club", app="book/claim", name=name, tai=f"{when:010d}:000000000", extras=fields.items(), data=data,
    )  # fmt: skip
    return seal(plex, by)


def test_the_newest_is_by_time_by_author_and_by_role() -> None:
    first, second, third, stray = (
        claim(OWNER, 1),
        claim(BOB, 2),
        claim(CAROL, 3),
        claim(demo_key("eve"), 4),
    )
    with lace.open(records=[first, second, third, stray], key=OWNER) as local:
        for who, role in ((OWNER, "chair"), (BOB, "guest"), (CAROL, "guest")):
            blocking.admit(local, who.verifier, role, room=ROOM)
        assert blocking.current(local, PLACE) == stray
        assert blocking.current(local, PLACE, ROOM.module) == third
        assert blocking.current(local, PLACE, author=BOB.verifier) == second
        assert blocking.current(local, PLACE, ROOM.module, author=stray.author) is None
        assert blocking.current(local, PLACE, role="chair", room=ROOM) == first
        assert blocking.current(local, PLACE, role="guest", room=ROOM) == third
        blocking.remove(local, CAROL.verifier, room=ROOM)
        assert blocking.current(local, PLACE, role="guest", room=ROOM) == second
        assert blocking.current(local, "//club//book/claim//2") is None
        cases: list[tuple[Callable[[], object], str]] = [
            (lambda: blocking.current(local, "//club//book//"), "not one place"),
            (lambda: blocking.current(local, PLACE, role="king", room=ROOM), "no role"),
            (lambda: blocking.current(local, PLACE, role="chair"), "no room"),
            (
                lambda: blocking.current(local, PLACE, role="chair", author="V", room=ROOM),
                "not both",
            ),
        ]
        for wrong, reason in cases:
            with pytest.raises(UsageError, match=reason):
                wrong()


def test_a_table_of_the_newest_versions() -> None:
    records = [
        claim(BOB, 1),
        claim(BOB, 5),
        claim(CAROL, 3),
        claim(CAROL, 2, "2"),
        lace.build_blob(b"x"),
    ]
    tips = lace.Projection.of(records, ["Name", "TAI"], newest=True)
    assert tips.rows == ((None, None), ("2", "0000000002:000000000"), ("1", "0000000005:000000000"))
    assert tips == lace.Projection.of(reversed(records), ["Name", "TAI"], newest="tip")
    authors = lace.Projection.of(records, ["Name", "TAI"], newest="author")
    assert [row[1] for row in authors.rows if row[1]] == [
        f"000000000{n}:000000000" for n in (2, 3, 5)
    ]
    with pytest.raises(UsageError, match="newest is"):
        lace.Projection.of(records, newest="latest")  # type: ignore[arg-type]


def filled() -> lace.Projection:
    records = [
        claim(BOB, 1_700_000_037, "a", b'{"why": ["train"]}', Amount="12.50", Count="3", When="2026-01-31T12:00:00+01:00"),
        claim(BOB, 1_700_000_038, "b", b"[1]", Amount="-7", Count="-1", When="1700000037:500000000"),
        claim(BOB, 1_700_000_039, "c", b"{", Amount="NaN", Count="9" * 19, When="noon"),
        claim(BOB, 1_700_000_040, "d", b"null"),
    ]  # fmt: skip
    columns = ("Name", "Amount", "Count", "When", "TAI", "Data")
    return lace.Projection.of(records, columns, types={**KIND.types, "TAI": "datetime"})


def test_declared_types_are_read_and_what_is_not_of_its_type_is_told() -> None:
    table = filled()
    first, second, third, fourth = table.rows
    assert first[:4] == ("a", Decimal("12.50"), 3, datetime(2026, 1, 31, 11, tzinfo=UTC))
    assert first[4:] == (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), {"why": ["train"]})
    assert second[1:4] == (Decimal(-7), -1, datetime(2023, 11, 14, 22, 13, 20, 500000, UTC))
    assert third[1:4] == (None, None, None)
    assert fourth == ("d", None, None, None, datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC), None)
    assert [fault.column for fault in table.faults] == ["Amount", "Count", "When", "Data"]
    assert table.faults[2].detail == "'noon' is not of type datetime"
    assert "12.50" in str(table)
    assert "12.50" in table._repr_html_()
    with pytest.raises(UsageError, match="no type"):
        lace.Projection.of([], ["Name"], types={"Name": "float"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("int", "+7", 7),
        ("int", "007", 7),
        ("int", str(-(1 << 63)), -(1 << 63)),
        ("int", "1_0", None),
        ("int", " 7", None),
        ("int", "7\n", None),
        ("int", "\u0663", None),
        ("int", "9" * 20, None),
        ("int", "0" * 40, None),
        ("decimal", "1.5e3", Decimal(1500)),
        ("decimal", "1_0", None),
        ("decimal", " 7", None),
        ("decimal", "\u0663", None),
        ("decimal", "Infinity", None),
        ("decimal", "1e99", None),
        ("json", "[1.5]", [1.5]),
        ("json", "NaN", None),
        ("json", "[-Infinity]", None),
        ("json", "1e999", None),
        ("datetime", "2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("datetime", "2026-01-31T12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("datetime", "2026-01-31T12:00:00+01:00", datetime(2026, 1, 31, 11, tzinfo=UTC)),
    ],
)
def test_a_text_stands_for_the_same_value_everywhere(
    type: Any, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        if value is not None:
            assert read_value(text, type) == value
        else:
            with pytest.raises(NoValue, match=f"is not of type {type}"):
                read_value(text, type)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_is_out_of_range_says_so() -> None:
    with pytest.raises(
        UsageError, match="it goes from -9223372036854775808 to 9223372036854775807"
    ):
        KIND.build("1", "{}", {"Title": "t", "Count": "9" * 20})


def test_a_kind_has_only_fields_that_a_record_can_have() -> None:
    for name in ("Name", "Signed-By", "My Field", ""):
        with pytest.raises(RecordError):
            lace.RecordKind(group="club", app="x", fields=(name,))
        with pytest.raises(RecordError):
            lace.RecordKind(group="club", app="x", required=(name,))
    with pytest.raises(UsageError, match="types has 'Amuont', which is no field of x"):
        lace.RecordKind(group="club", app="x", fields=("Amount",), types={"Amuont": "decimal"})
    with lace.open() as local:
        with pytest.raises(UsageError, match="book/claim has no column 'Nam'; it has Name, Title"):
            blocking.table(local, KIND, ["Nam"])
        assert blocking.table(local, KIND, ["Hash", "Name", "TAI", "Title"]).rows == ()


def test_tables_of_others_have_real_types() -> None:
    table = filled()
    arrow = table.to_arrow()
    assert arrow.schema.types == [
        pa.string(), pa.decimal128(38, 2), pa.int64(), pa.timestamp("us", tz="UTC"),
        pa.timestamp("us", tz="UTC"), pa.string(),
    ]  # fmt: skip
    assert arrow.column("Amount").to_pylist() == [Decimal("12.50"), Decimal("-7.00"), None, None]
    assert arrow.column("Data").to_pylist()[0] == '{"why": ["train"]}'
    frame = table.to_pandas()
    assert str(frame.dtypes["Count"]) == "Int64"
    assert isinstance(frame.dtypes["When"], pd.DatetimeTZDtype)
    assert frame["Count"].sum() == 2
    assert frame["Amount"].dropna().sum() == Decimal("5.50")
    other = table.to_polars()
    assert other.schema["Amount"] == pl.Decimal(38, 2)
    assert other.schema["When"] == pl.Datetime("us", "UTC")
    empty = lace.Projection.of([], table.columns, types=KIND.types)
    assert (len(empty.to_arrow()), len(empty.to_pandas()), len(empty.to_polars())) == (0, 0, 0)
    assert lace.Projection(("Hash",), (("x",),)).to_pandas().index[0] == "x"


def test_a_kind_declares_its_types_and_makes_its_table() -> None:
    with lace.open(key=BOB) as local:
        made = KIND.build("1", '{"a": 1}', {"Title": "t", "Amount": "3.10"}, key=BOB)
        blocking.store(local, [made, KIND.build("1", "{}", {"Title": "u"}, key=CAROL)])
        blocking.store(
            local,
            [lace.build_plex(group="club", app="book/claim/sub", name="1", tai=lace.tai_now())],
        )
        table = blocking.table(local, KIND, author=BOB.verifier)
        assert table.columns == ("Name", "Title", "Amount", "Count", "When", "Data")
        assert table.rows == (("1", "t", Decimal("3.10"), None, None, {"a": 1}),)
        assert len(blocking.table(local, KIND)) == 2
        assert len(blocking.table(local, KIND, newest=True)) == 1
        assert len(blocking.table(local, "//club//book//", newest="author")) == 3
    wrong: Any
    for wrong in (("x", {"Title": "t"}), ("{}", {"Title": "t", "Amount": "much"})):
        with pytest.raises(UsageError, match="is of type"):
            KIND.build("1", *wrong)
    assert hash(KIND)


def test_a_table_by_role_and_of_what_belongs(tmp_path: Any) -> None:
    (tmp_path / "lace.toml").write_text(
        f'select = "//club//book//"\n[room]\nauthority = "{OWNER.verifier}"\n[room.roles]\nchair = "*"\nguest = "claim"\n'
    )
    lace.open(tmp_path / "records.lace").close()
    stray = claim(demo_key("eve"), 9, "9", b"{}")
    with lace.open(tmp_path, records=[claim(OWNER, 1), claim(BOB, 2), stray], key=OWNER) as local:
        blocking.admit(local, OWNER.verifier, "chair")
        blocking.admit(local, BOB.verifier, "guest")
        assert len(blocking.table(local, KIND)) == 2
        assert [
            row[0] for row in blocking.table(local, KIND, ["Signed-By"], role="guest").rows
        ] == [BOB.verifier]
