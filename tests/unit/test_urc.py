from __future__ import annotations

import random

import forge
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lace.crypto import SigningKey
from lace.errors import Code, EncodingError
from lace.limits import Limits
from lace.record import Plex, Seal, build_plex, seal
from lace.urc import Coordinate, HashAddress, Prefix, parse_urc, path_fault, raw_tip_key

segments = st.text(st.sampled_from("ab.|é世 :'"), min_size=1, max_size=4).filter(
    lambda segment: segment not in {".", "..", "|"}
)
paths = st.lists(segments, min_size=1, max_size=3).map("/".join)


def version(name: str = "k", second: int = 1, data: bytes = b"") -> Plex:
    return build_plex(group="g", app="a", name=name, tai=f"{second:010d}:000000000", data=data)


@pytest.mark.req("110-COO-11", "110-COO-05")
@given(paths, paths, paths)
def test_every_place_round_trips(group: str, app: str, name: str) -> None:
    place = Coordinate(group=group, app=app, name=name)
    assert parse_urc(str(place)) == place
    for prefix in (
        Prefix(group=group, app=app, name=""),
        Prefix(group=group, app=app, name=f"{name}/"),
    ):
        assert parse_urc(str(prefix)) == prefix


@pytest.mark.req("110-COO-11")
@given(st.text(st.sampled_from("/ab|.PV é\n"), max_size=14))
def test_whatever_parses_formats_to_itself(text: str) -> None:
    try:
        parsed = parse_urc(text)
    except EncodingError as error:
        assert error.message
    else:
        assert str(parsed) == text


@pytest.mark.req("110-COO-05")
@given(paths, paths, paths)
def test_a_record_at_a_coordinate_stores_no_separators(group: str, app: str, name: str) -> None:
    place = parse_urc(f"//{group}//{app}//{name}")
    assert isinstance(place, Coordinate)
    record = build_plex(
        group=place.group, app=place.app, name=place.name, tai="0" * 10 + ":" + "0" * 9
    )
    assert f"\nApp: {app}\n".encode() in record.raw
    assert record.coordinate == place


@pytest.mark.req("110-URC-02", "110-URC-03")
def test_a_hash_address_is_never_a_coordinate_and_names_one_record() -> None:
    record = version()
    address = parse_urc(f"////{record.hash}")
    assert address == HashAddress(record.hash)  # type: ignore[arg-type]
    assert address != parse_urc(f"////{version(data=b'x').hash}")


@pytest.mark.req("110-COO-10")
@pytest.mark.parametrize(
    ("text", "field"),
    [("//u", "App"), ("//u//docs", "Name"), ("//.//a//n", "Group"), ("//u//a/..//n", "App")],
)
def test_errors_name_the_field(text: str, field: str) -> None:
    with pytest.raises(EncodingError, match=field):
        parse_urc(text)


@pytest.mark.req("110-COO-08")
def test_case_matters_and_length_is_limited() -> None:
    assert parse_urc("//u//a//n") != parse_urc("//U//a//n")
    with pytest.raises(EncodingError) as caught:
        parse_urc("//u//a//" + "n" * 4096)
    assert caught.value.code is Code.URC_TOO_LONG
    assert str(parse_urc("//u//a//nnnn", Limits(urc_bytes=12))) == "//u//a//nnnn"


@pytest.mark.req("110-PFX-01", "110-PFX-02")
def test_a_prefix_is_no_address_and_selects_on_segment_boundaries() -> None:
    prefix = parse_urc("//u//ding//links/")
    assert isinstance(prefix, Prefix)
    assert prefix.matches("u", "ding", "links/a")
    assert not prefix.matches("u", "ding", "linksx")
    assert not prefix.matches("u", "ding", "links")
    assert not prefix.matches("u", "ding/x", "links/a")
    assert not prefix.matches("v", "ding", "links/a")


@pytest.mark.req("110-PFX-05")
def test_an_empty_name_takes_the_app_and_its_sub_apps() -> None:
    prefix = parse_urc("//notes-demo//notes//")
    assert isinstance(prefix, Prefix)
    apps = ("notes", "notes/member", "notes/message", "notesx", "note")
    assert [app for app in apps if prefix.matches("notes-demo", app, "x")] == list(apps[:3])


@pytest.mark.req("110-URC-05", "110-VER-01", "110-VER-02", "110-VER-03", "110-VER-04")
def test_many_versions_at_one_coordinate_and_how_selectors_narrow_them() -> None:
    plexes = [version(second=second) for second in (1, 2, 3)]
    alice, bob = forge.KEY, SigningKey(b"b" * 32)
    seals = [seal(plexes[0], alice), seal(plexes[1], alice), seal(plexes[1], bob)]
    everything: list[Plex | Seal] = [*plexes, *seals]
    top = parse_urc("//g//a//k")
    assert isinstance(top, Coordinate)
    assert top.selector is None
    assert all(top.matches(r.group, r.app, r.name) for r in everything)

    def named(suffix: str) -> list[Plex | Seal]:
        place = parse_urc(f"//g//a//k{suffix}")
        assert isinstance(place, Coordinate)
        assert place.selector is not None
        return [
            r
            for r in everything
            if place.selector.selects(
                hash=r.hash, tai=r.tai, signed_by=r.signed_by if isinstance(r, Seal) else None
            )
        ]

    assert named("/|") == everything
    assert named("/|/plex") == plexes
    assert named(f"/|/plex/{plexes[1].tai}") == [plexes[1]]
    assert named(f"/|/plex/{plexes[1].tai}/{plexes[1].hash}") == [plexes[1]]
    assert named(f"/|/plex/{plexes[2].tai}/{plexes[1].hash}") == []
    assert named("/|/seal") == seals
    assert named(f"/|/seal/{alice.verifier}") == seals[:2]
    assert named(f"/|/seal/{alice.verifier}/{plexes[1].tai}") == [seals[1]]
    assert named(f"/|/seal/{bob.verifier}/{seals[2].tai}/{seals[2].hash}") == [seals[2]]
    assert named(f"/|/seal/{alice.verifier}/{seals[2].tai}/{seals[2].hash}") == []


@pytest.mark.req("110-TIP-01", "110-TIP-02")
def test_the_raw_tip_is_the_highest_time_then_the_highest_hash() -> None:
    versions = [version(second=1, data=b"%d" % i) for i in range(5)]
    newest = [version(second=2, data=b"%d" % i) for i in range(5)]
    arrival = versions + newest
    random.Random(7).shuffle(arrival)
    tip = max(arrival, key=lambda r: raw_tip_key(r.tai, r.hash))
    assert tip.tai == newest[0].tai
    assert tip.hash.encode() == max(r.hash.encode() for r in newest)


@pytest.mark.req("110-COO-06", "110-COO-09")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a/b", None),
        ("a/|b", None),
        ("...", None),
        ("", Code.TEXT_EMPTY),
        ("/a", Code.PATH_EMPTY_SEGMENT),
        ("a//b", Code.PATH_EMPTY_SEGMENT),
        ("a/|/b", Code.PATH_RESERVED_SEGMENT),
        ("..", Code.PATH_RESERVED_SEGMENT),
    ],
)
def test_paths(path: str, code: Code | None) -> None:
    assert path_fault(path) is code
