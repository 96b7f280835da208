"""A wrong argument is told in a sentence, where it was given, and says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lace
from lace import blocking

KEY = lace.SigningKey(b"k" * 32)
KIND = lace.RecordKind(group="g", app="a", fields=("Count",), types={"Count": "int"})
NOTE = KIND.build("1", "x", {"Count": "1"}, key=KEY)
ROOM = lace.Room(prefix="//g//a//", authority=KEY.verifier)

Call = Callable[[lace.Lace], Any]
WRONG: list[tuple[Call, str]] = [
    (lambda _: lace.open(5), "this takes the path of a folder or a store file, not an int"),  # type: ignore[arg-type]
    (lambda _: lace.open(records="x"), "this takes records and kinds of records, not a str"),  # type: ignore[arg-type]
    (lambda h: blocking.store(h, NOTE), "this takes a list of records, not a Seal"),  # type: ignore[arg-type]
    (lambda h: blocking.store(h, "x"), "this takes a list of records, not a str"),  # type: ignore[arg-type]
    (lambda h: blocking.get(h, None), "an address is text, not a NoneType"),  # type: ignore[arg-type]
    (lambda h: blocking.history(h, 5), "a place is text, not an int"),  # type: ignore[arg-type]
    (lambda h: blocking.history(h, "//g//a//1", limit=-1), "limit is -1"),
    (
        lambda h: blocking.list(h, "notes"),
        "'notes' is not a selector: 'notes' does not begin with //",
    ),
    (lambda _: lace.connect(5), "address is text, not an int"),  # type: ignore[arg-type]
    (lambda h: blocking.admit(h, KEY, room=ROOM), "a member is text, not a SigningKey"),  # type: ignore[arg-type]
    (lambda h: blocking.remove(h, "bob", room=ROOM), "'bob' is no verifier"),
    (lambda _: KIND.build("1", "x", {"Count": 1}), "Count is text, not an int"),  # type: ignore[dict-item]
    (lambda _: KIND.build("1", 5), "this takes data as bytes or text, not an int"),  # type: ignore[arg-type]
    (lambda _: KIND.build(1), "name is text, not an int"),  # type: ignore[arg-type]
    (lambda _: KIND.build("1", tai=1.5), "tai is text, not a float"),  # type: ignore[arg-type]
    (lambda _: lace.RecordKind(group="g", app="//x"), "app cannot be '//x'"),
    (lambda _: lace.RecordKind(group="g", app="a//b"), "app cannot be 'a//b'"),
    (lambda _: lace.RecordKind(group="g", app="a", fields="Title"), "fields is a tuple of names"),  # type: ignore[arg-type]
    (
        lambda _: lace.RecordKind(group="g", app="a", types={"A": "float"}),  # type: ignore[dict-item]
        "'float' is no type for A; there are text, bytes, int",
    ),
    (lambda h: blocking.table(h, KIND, columns="Name"), "columns is a list of names, not a str"),
    (
        lambda _: lace.Room(prefix="//g//a//", authority=KEY.verifier, roles=["a"]),  # type: ignore[arg-type]
        "roles is not a mapping",
    ),
    (
        lambda _: lace.Room(prefix="//g//a//", authority=KEY.verifier, roles={"a": "*"}),
        "role 'a' has a text for its apps",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), WRONG)
def test_a_wrong_argument_is_told_in_a_sentence(call: Call, sentence: str) -> None:
    with lace.open(key=KEY) as local, pytest.raises(lace.LaceError) as caught:
        call(local)
    assert caught.value.message.startswith(sentence)
    assert caught.value.hint


def test_a_wrong_argument_leaves_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(lace.UsageError):
        lace.open(tmp_path / "new.lace", records=[5])  # type: ignore[list-item]
    assert not list(tmp_path.iterdir())


def test_a_record_is_found_by_its_hash() -> None:
    with lace.open(records=[NOTE]) as local:
        assert blocking.get(local, NOTE.hash) == NOTE
        assert blocking.get(local, f"////{NOTE.hash}") == NOTE


def test_lists_are_as_good_as_tuples() -> None:
    kind = lace.RecordKind(group="g", app="a", fields=["Count"], required=[])  # type: ignore[arg-type]
    assert kind == lace.RecordKind(group="g", app="a", fields=("Count",))
    assert hash(kind)
    roles = {"writer": ["*"], "reader": []}
    assert lace.Room(prefix="//g//a//", authority=KEY.verifier, roles=roles) == ROOM
