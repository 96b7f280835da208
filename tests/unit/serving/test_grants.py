"""Who may see what and who may store what."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from meeting import client, within
from servers import policy, served
from wires import hashes, store_of

from lace.crypto import SigningKey
from lace.errors import Code, LaceError, UsageError
from lace.interlace import messages as m
from lace.limits import FIXED
from lace.record import Record, build_plex, seal
from lace.serving import grants
from lace.serving.grants import load_policy

SERVER = SigningKey(b"\x21" * 32)
ALICE = SigningKey(b"\x22" * 32)
BOB = SigningKey(b"\x23" * 32)


def note(app: str, name: str, key: SigningKey) -> Record:
    plex = build_plex(group="g", app=app, name=name, tai="1700000000:000000000")
    return seal(plex, key, aux=b"\x01" * 32)


PUBLIC = note("public", "1", SERVER)
SECRET = note("secret", "1", SERVER)
BY_ALICE = note("inbox", "a", ALICE)
BY_BOB = note("inbox", "b", BOB)
ELSEWHERE = note("elsewhere", "x", ALICE)

RULES = f"""
[[allow]]
who = "anyone"
see = ["//g//public//"]

[[allow]]
who = "proven"
store = ["//g//inbox//"]
signed_by_peer = true

[[allow]]
who = ["{BOB.verifier}"]
see = ["//g//secret//", "//g//inbox//"]
store = ["//g//public//"]
"""


def meet(
    key: SigningKey | None, rules: str = RULES
) -> tuple[set[str], set[str], m.Event, list[bytes]]:
    """Return what a client and the server have after they met, and the modules the client saw."""
    here = store_of([PUBLIC, SECRET])
    there = store_of([BY_ALICE, BY_BOB, ELSEWHERE])
    seen: list[bytes] = []

    async def work() -> m.Closed | m.Aborted:
        async with served(here, policy(rules), key=SERVER) as host:
            near = client(there, key=key, expected=SERVER.verifier)
            exchange = await near.dial(host.address)
            binding = exchange.connection._bytes
            receive = binding.inputs

            def watch(chunk: bytes) -> Iterator[m.FromPeer]:
                for given in receive(chunk):
                    if isinstance(given, m.PeerModule):
                        seen.append(given.content)
                    yield given

            binding.inputs = watch  # type: ignore[method-assign]
            return await exchange.run()

    ended = within(work())
    return hashes(there), hashes(here), ended, seen


def test_a_stranger_sees_what_is_public_and_stores_nothing() -> None:
    there, here, ended, seen = meet(None)
    assert isinstance(ended, m.Closed), ended
    assert there == {BY_ALICE.hash, BY_BOB.hash, ELSEWHERE.hash, PUBLIC.hash}
    assert here == {PUBLIC.hash, SECRET.hash}
    assert len(seen) == 1


def test_who_proves_a_key_may_store_what_it_signed() -> None:
    there, here, ended, _ = meet(ALICE)
    assert isinstance(ended, m.Closed), ended
    assert there == {BY_ALICE.hash, BY_BOB.hash, ELSEWHERE.hash, PUBLIC.hash}
    assert here == {PUBLIC.hash, SECRET.hash, BY_ALICE.hash}


def test_a_named_peer_may_do_what_all_entries_allow_together() -> None:
    there, here, ended, _ = meet(BOB)
    assert isinstance(ended, m.Closed), ended
    assert there == {BY_ALICE.hash, BY_BOB.hash, ELSEWHERE.hash, PUBLIC.hash, SECRET.hash}
    assert here == {PUBLIC.hash, SECRET.hash, BY_BOB.hash}


def test_whoever_proved_nothing_does_not_read_what_others_may_do() -> None:
    for key in (None, ALICE):
        *_, seen = meet(key)
        assert not any(BOB.verifier.encode() in text or b"secret" in text for text in seen)
    *_, seen = meet(BOB)
    assert b"secret" not in seen[0]
    assert b"secret" in seen[1]


def test_sync_goes_both_ways_and_needs_no_key() -> None:
    rules = '[[allow]]\nwho = "anyone"\nsync = ["//g//inbox//", "//g//public//"]'
    there, here, ended, _ = meet(None, rules)
    assert isinstance(ended, m.Closed), ended
    assert there == {BY_ALICE.hash, BY_BOB.hash, ELSEWHERE.hash, PUBLIC.hash}
    assert here == {PUBLIC.hash, SECRET.hash, BY_ALICE.hash, BY_BOB.hash}


def test_nothing_is_allowed_where_nothing_is_said() -> None:
    there, here, ended, _ = meet(
        ALICE, f'[[allow]]\nwho = "{BOB.verifier}"\nsync = "//g//public//"'
    )
    assert isinstance(ended, m.Closed), ended
    assert len(there) == 3
    assert len(here) == 2


def test_rules_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "all.lacegram").write_text(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    (tmp_path / "p.toml").write_text(
        '[[allow]]\nwho = "anyone"\nsync = "file:all.lacegram"\n[limits]\nconnections = 7\n'
        "[engine]\nphase_timeout = 3\n"
    )
    loaded = load_policy(tmp_path / "p.toml")
    assert (loaded.limits.connections, loaded.engine.phase_timeout) == (7, 3)
    there, _, ended, _ = meet(None, '[[allow]]\nwho = "anyone"\nsync = "//g//public//"')
    assert isinstance(ended, m.Closed)
    assert PUBLIC.hash in there
    loaded.check(None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("what = 1", "knows no"),
        ("allow = 1", "[[allow]]"),
        ("[[allow]]\nsync = '//g//a//'", "who is"),
        ("[[allow]]\nwho = []\nsync = '//g//a//'", "who is"),
        ("[[allow]]\nwho = 'everyone'\nsync = '//g//a//'", "not a verifier"),
        ("[[allow]]\nwho = ['V.x.H3']\nsync = '//g//a//'", "not a verifier"),
        ("[[allow]]\nwho = [7]\nsync = '//g//a//'", "not a verifier"),
        ("[[allow]]\nwho = 'anyone'", "allows nothing"),
        ("[[allow]]\nwho = 'anyone'\nread = '//g//a//'", "knows no"),
        ("[[allow]]\nwho = 'anyone'\nsync = 'nonsense'", "not a selector"),
        ("[[allow]]\nwho = 'anyone'\nsync = 7", "list of selectors"),
        ("[[allow]]\nwho = 'anyone'\nsync = 'file:missing'", "cannot read"),
        ("[[allow]]\nwho = 'anyone'\nsync = '//g//a//'\nsigned_by_peer = true", "about store"),
        ("[[allow]]\nwho = 'anyone'\nstore = '//g//a//'\nsigned_by_peer = 1", "true or false"),
        ("[limits]\nconnections = 0", "at least 1"),
        ("[limits]\nconnections = 'many'", "whole number"),
        ("[limits]\nconnections = true", "whole number"),
        ("[limits]\nspeed = 1", "knows no"),
        ("limits = 1", "[limits]"),
        ("[engine]\nwork = -1", "whole number"),
        ("[engine]\nheader_line_bytes = 1", "header_line_bytes is below"),
        ("[engine]\nstream_line_bytes = 5000000000", "stream_line_bytes is beyond"),
        ("[engine]\nnothing = 1", "knows no"),
        ("[[allow]\n", "line"),
        ("\x00", "p.toml"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        load_policy(tmp_path / "p.toml")
    assert caught.value.code is Code.SERVE_POLICY
    assert says in caught.value.message
    assert "p.toml" in caught.value.message


def test_other_files_are_refused_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load_policy(tmp_path / "missing")
    (tmp_path / "large").write_bytes(b"#" * 1_100_000)
    with pytest.raises(UsageError, match="larger"):
        load_policy(tmp_path / "large")
    (tmp_path / "latin").write_bytes(b"# \xff")
    with pytest.raises(UsageError):
        load_policy(tmp_path / "latin")


def test_directions_need_a_server_with_a_key() -> None:
    with pytest.raises(LaceError) as caught:
        policy(RULES).check(None)
    assert "--key" in caught.value.message
    policy(RULES).check(SERVER.verifier)


def test_what_a_policy_grants_to_strangers_is_told_as_it_is_written(tmp_path: Path) -> None:
    made = policy(
        '[[allow]]\nwho="anyone"\nsee=["//g//a//"]\n'
        '[[allow]]\nwho="proven"\nstore=["//g//b//"]\nsigned_by_peer=true\n'
        f'[[allow]]\nwho=["{ALICE.verifier}"]\nsync=["//g//c//"]\n',
        tmp_path,
    )
    assert made.for_strangers() == (["//g//a//"], ["//g//b// (signed by themselves)"])
    assert made.accepts(None, None)


def test_threads_share_the_modules_that_a_policy_keeps_however_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grants, "FIXED", replace(FIXED, cached_modules=2))
    keys = [SigningKey(bytes([number]) * 32).verifier for number in range(1, 5)]
    entries = (f'[[allow]]\nwho = ["{who}"]\nsee = ["//g//a{n}//"]\n' for n, who in enumerate(keys))
    shared = policy("".join(entries))
    expected = {who: shared.module_for(who, SERVER.verifier).text for who in keys}
    others = cycle(keys)

    def another_thread_comes_between(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != grants.__file__:
            return None
        if event == "line":  # what is asked in here is not traced
            for who in islice(others, len(keys)):
                shared.module_for(who, SERVER.verifier)
        return another_thread_comes_between

    before = sys.gettrace()
    sys.settrace(another_thread_comes_between)
    try:
        found = {who: shared.module_for(who, SERVER.verifier).text for who in keys * 2}
    finally:
        sys.settrace(before)
    assert found == expected


def test_two_servers_with_one_policy_get_each_their_own_module() -> None:
    shared = policy('[[allow]]\nwho = "anyone"\nsee = ["//g//a//"]\n')
    texts = [shared.module_for(None, key.verifier).text for key in (SERVER, ALICE)]
    assert [SERVER.verifier in text for text in texts] == [True, False]
    assert [ALICE.verifier in text for text in texts] == [False, True]
