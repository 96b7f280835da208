"""The page about streams says what is so."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from lace.crypto import SigningKey
from lace.serving.grants import ServerLimits, parse_policy
from lace.transport.address import parse_address

PAGE = (Path(__file__).parents[2] / "docs" / "streams.md").read_text("utf-8")


def test_the_policy_on_the_page_can_be_used(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "room.lacegram").write_text(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    policy = parse_policy(tomllib.loads(text), tmp_path)
    assert len(policy.grants) == 3
    policy.check(SigningKey(b"\x01" * 32).verifier)


def test_every_limit_is_on_the_page_with_its_default() -> None:
    rows = dict(re.findall(r"\| `(\w+)` \| ([\w ]+) \|", PAGE))
    for limit in fields(ServerLimits):
        number, _, unit = rows[limit.name].partition(" ")
        assert int(number) * {"": 1, "MiB": 1024**2, "GiB": 1024**3}[unit] == limit.default


def test_addresses_on_the_page_are_canonical() -> None:
    for text in ("tcp:[::1]:4790", "wss:example.org/interlace"):
        assert text in PAGE
        assert str(parse_address(text)) == text
