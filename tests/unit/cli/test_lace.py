"""init, keyring, add, get and list: a lace in a folder, its settings, its records."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside as lace

from lace import blocking
from lace.crypto.keys import demo_key
from lace.errors import Code, StoreError, UsageError
from lace.keyring import Keyring
from lace.record import Seal, validate_record
from lace.settings import load

VERIFIER = demo_key("alice").verifier
PLACE = "//notes-demo//notes/message//msg/1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    Keyring().add("alice", demo=True)
    Keyring().add("bob", demo=True)
    return tmp_path


@pytest.fixture
def notes(home: Path) -> Path:
    done = lace("init", "notes", "--key", "alice", "--select", "//notes-demo//notes//", cwd=home)
    assert done.returncode == 0, done.stderr
    return home / "notes"


def ok(*arguments: str | Path, cwd: Path, stdin: bytes = b"") -> bytes:
    done = lace(*arguments, cwd=cwd, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_keys_are_made_listed_shown_and_removed(home: Path) -> None:
    verifier = ok("keyring", "new", "carol", cwd=home).decode().strip()
    listed = {str(entry["name"]): entry for entry in lines(ok("keyring", "list", cwd=home))}
    assert listed["carol"] == {"name": "carol", "verifier": verifier, "demo": False}
    assert listed["alice"]["demo"] is True
    done = lace("keyring", "show", "carol", cwd=home)
    assert done.stdout.decode().strip() == verifier
    assert b"&." not in done.stdout + done.stderr
    secret = ok("keyring", "show", "carol", "--secret", cwd=home)
    assert secret.startswith(b"&.")
    (home / "c.key").write_bytes(secret)
    (home / "c.key").chmod(0o600)
    assert (
        ok("keyring", "new", "other", "--from", "c.key", "--force", cwd=home).decode().strip()
        == verifier
    )
    assert lace("keyring", "remove", "carol", cwd=home).returncode == 2
    ok("keyring", "remove", "carol", "--yes", cwd=home)
    gone = lace("keyring", "show", "carol", cwd=home)
    assert gone.returncode == 2
    assert b"key.unknown" in gone.stderr
    assert b"lace keyring new carol" in gone.stderr
    assert stat.S_IMODE((home / "keyring.toml").stat().st_mode) == 0o600


def test_a_demo_key_says_so_wherever_it_is_used(notes: Path) -> None:
    done = lace("add", PLACE, "--text", "x", cwd=notes)
    assert b"alice is a demo key" in done.stderr
    assert b"demo" not in lace("list", cwd=notes).stderr  # nothing is signed or proven


@pytest.mark.req("110-EVT-01", "110-EVT-02", "110-EVT-06", "110-EVT-07", "110-COO-05")
def test_what_is_added_is_signed_stored_got_and_listed(notes: Path) -> None:
    hash = ok("add", PLACE, "-f", "Title=Hello", "--text", "My note.", cwd=notes).decode().strip()
    ok("add", "//notes-demo//other//x", "--file", "-", "--unsigned", cwd=notes, stdin=b"\xff\x00")
    raw = ok("get", hash, "--raw", cwd=notes)
    record = validate_record(raw).unwrap()
    assert isinstance(record, Seal)
    assert record.hash == hash
    assert record.signed_by == demo_key("alice").verifier
    assert ok("get", PLACE, "--data", cwd=notes) == b"My note."
    (shown,) = lines(ok("get", f"////{hash}", cwd=notes))
    assert (shown["data"], shown["requested"]) == ("My note.", f"////{hash}")
    (listed,) = lines(ok("list", cwd=notes))  # by the settings: not the other app
    assert listed["hash"] == hash
    with blocking.open(notes / "records.lace") as same:
        assert [r.hash for r in blocking.list(same, "//notes-demo//notes//")] == [hash]
    columns = "Name,Title,Colour,Data"
    both = lines(ok("list", "//notes-demo//other//", "--columns", columns, cwd=notes))
    assert both == [{"Name": "x", "Title": None, "Colour": None, "Data_b64": "/wA="}]
    assert lines(ok("list", "//notes-demo//notes//", "-f", "Title=Other", cwd=notes)) == []


@pytest.mark.req("000-REC-04", "000-REC-05", "110-VER-01", "110-URC-05", "110-IDX-03")
def test_editing_adds_another_record_at_the_same_place(notes: Path) -> None:
    first = ok("add", PLACE, "--text", "one", cwd=notes).decode().strip()
    before = lines(ok("list", "--columns", "Hash,Name,Data", cwd=notes))
    second = ok("add", PLACE, "--text", "two", cwd=notes).decode().strip()
    rows = lines(ok("list", "--columns", "Hash,Name,Data", cwd=notes))
    assert [row["Hash"] for row in rows] == [first, second]
    assert rows[0] == before[0]
    assert ok("get", PLACE, "--data", cwd=notes) == b"two"
    assert ok("get", first, "--data", cwd=notes) == b"one"


@pytest.mark.req("000-NOT-09", "000-REC-01", "000-REC-02", "000-REC-03")
def test_the_room_is_a_table_with_blanks(home: Path) -> None:
    Keyring().add("authority", demo=True)
    ok("init", "room", "--select", "//notes-demo//notes//", "--room", "authority", cwd=home)
    room = home / "room"
    made = []
    for arguments in (
        ("member//member/bob", "-f", f"Member={demo_key('bob').verifier}", "-f", "Role=writer",
         "--text", "grant-v1", "--key", "authority"),
        ("message//msg/1/bob/1", "-f", "Title=Bob hello", "--text", "One.", "--key", "bob"),
        ("message//msg/1/alice/1", "-f", "Title=Alice hello", "--text", "Two.", "--key", "alice"),
    ):  # fmt: skip
        place, *rest = arguments
        done = ok("add", f"//notes-demo//notes/{place}", *rest, cwd=room)
        made.append(done.decode().strip())
    columns = "Hash,Group,App,Name,Signed-By,Member,Role,Title,Data"
    rows = lines(ok("list", "//notes-demo//notes//", "--columns", columns, cwd=room))
    assert [row["Hash"] for row in rows] == made
    assert [row["Role"] for row in rows] == ["writer", None, None]
    assert [row["Member"] for row in rows] == [demo_key("bob").verifier, None, None]
    assert [row["Title"] for row in rows] == [None, "Bob hello", "Alice hello"]
    assert [row["Data"] for row in rows] == ["grant-v1", "One.", "Two."]
    # By the rules of the room Alice's note waits until somebody admits her.
    assert [row["hash"] for row in lines(ok("list", cwd=room))] == made[:2]


def test_a_grant_names_a_verifier_and_names_are_resolved(home: Path) -> None:
    """What is no verifier would match nothing, and nobody would be told."""
    Keyring().add("authority", demo=True)
    ok("init", "room", "--select", "//notes-demo//notes//", "--room", "authority",
       "--key", "authority", cwd=home)  # fmt: skip
    room = home / "room"
    place = "//notes-demo//notes/member//bob"
    wrong = lace("add", place, "-f", "Member=zzz", "-f", "Role=writer", cwd=room)
    assert wrong.returncode == 2
    assert b"Member: 'zzz' is no verifier" in wrong.stderr
    half = lace("add", place, "-f", "Member=bob", cwd=room)
    assert half.returncode == 2
    assert b"lace room admit" in half.stderr
    ok("add", place, "-f", "Member=bob", "-f", "Role=writer", cwd=room)
    (row,) = lines(ok("list", "//notes-demo//notes/member//", "--columns", "Member", cwd=room))
    assert row["Member"] == demo_key("bob").verifier
    ok("add", "//notes-demo//notes/message//m", "-f", "Member=zzz", "--text", "", cwd=room)
    by_name = ok("policy", "show", "//notes-demo//notes//", "--room", "authority", cwd=home)
    assert demo_key("authority").verifier.encode() in by_name
    assert lace("policy", "show", "//g//a//", "--room", "zzz", cwd=home).returncode == 2


def test_what_is_not_there_ends_with_6_and_says_what_to_do(notes: Path) -> None:
    done = lace("get", PLACE, cwd=notes)
    assert done.returncode == 6
    assert b"lace list" in done.stderr
    assert lace("get", "//notes-demo//notes//", cwd=notes).returncode == 2


def test_a_lace_is_found_from_below_by_name_and_by_its_store(notes: Path, home: Path) -> None:
    ok("add", PLACE, "--text", "x", cwd=notes)
    (notes / "deep" / "er").mkdir(parents=True)
    assert len(lines(ok("list", cwd=notes / "deep" / "er"))) == 1
    assert len(lines(ok("list", "--lace", "notes", cwd=home))) == 1
    assert len(lines(ok("list", "--lace", "notes/lace.toml", cwd=home))) == 1
    by_store = ("--lace", "notes/records.lace")
    assert len(lines(ok("list", "//notes-demo//notes//", *by_store, cwd=home))) == 1
    done = lace("list", *by_store, cwd=home)
    assert done.returncode in {1, 2}
    assert b"//group//app//" in done.stderr
    for where in ((), ("--lace", "nowhere"), ("--lace", ".")):
        done = lace("list", *where, cwd=home)
        assert done.returncode == 2
        assert b"settings.missing" in done.stderr
        assert b"lace init" in done.stderr


def test_init_writes_what_can_be_used_and_never_over_anything(home: Path) -> None:
    ok(
        "init", "room", "--key", "bob", "--select", "//notes-demo//notes//", "--room", "alice",
        "--peer", "server=tcp:localhost:4790", cwd=home,
    )  # fmt: skip
    made = load(home / "room")
    assert made.room is not None
    assert made.room.authority == demo_key("alice").verifier
    assert made.module() == made.room.module
    assert made.exposure() == made.room.exposure
    assert made.peers["server"].address == "tcp:localhost:4790"
    before = (home / "room" / "lace.toml").read_bytes()
    again = lace("init", "room", cwd=home)
    assert again.returncode == 2
    assert b"exists already" in again.stderr
    assert (home / "room" / "lace.toml").read_bytes() == before
    for wrong in (
        ("--select", "//notes-demo"), ("--select", "missing.lacegram"), ("--key", "nobody"),
        ("--room", "alice"), ("--select", "all.lacegram", "--room", "alice"), ("--peer", "x"), ("--peer", "x=ftp:y"),
        ("--select", "//g//a//", "--room", "nobody"),
    ):  # fmt: skip
        assert lace("init", "bad", *wrong, cwd=home).returncode in {1, 2}, wrong
    assert not (home / "bad").exists()


def test_files_of_rules_and_keys_are_found_from_anywhere(home: Path) -> None:
    (home / "all.lacegram").write_text(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    ok("key", "new", "me.key", cwd=home)
    ok("init", "all", "--key", "me.key", "--select", "all.lacegram", cwd=home)
    ok("add", "//g//a//n", "--text", "x", cwd=home / "all")
    assert len(lines(ok("list", cwd=home / "all"))) == 1


def test_a_folder_can_be_moved(home: Path) -> None:
    rules = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    (home / "all.lacegram").write_text(rules)
    (home / "inside").mkdir()
    (home / "inside" / "own.lacegram").write_text(rules)
    ok("init", "outside", "--key", "alice", "--select", "all.lacegram", cwd=home)
    ok("init", ".", "--key", "alice", "--select", "file:own.lacegram", cwd=home / "inside")
    ok("key", "new", "inside/me.key", cwd=home)
    ok("add", "//g//a//n", "--text", "x", cwd=home / "outside")
    ok("add", "//g//a//n", "--text", "x", cwd=home / "inside")
    (home / "all.lacegram").unlink()
    (home / "moved").mkdir()
    for name in ("outside", "inside"):
        assert str(home) not in (home / name / "lace.toml").read_text()
        (home / name).rename(home / "moved" / name)
        assert len(lines(ok("list", cwd=home / "moved" / name))) == 1
    (home / "all.lacegram").write_text("# other\n" + rules)
    (home / "taken").mkdir()
    (home / "taken" / "all.lacegram").write_text(rules)
    taken = lace("init", "taken", "--select", "all.lacegram", cwd=home)
    assert taken.returncode == 2
    assert b"taken/all.lacegram exists already" in taken.stderr
    assert (home / "taken" / "all.lacegram").read_text() == rules


def test_add_says_what_may_not_be_meant(notes: Path) -> None:
    nothing = lace("add", PLACE, cwd=notes)
    assert nothing.returncode == 2
    assert b"--text" in nothing.stderr
    assert lines(ok("list", cwd=notes)) == []
    assert lace("add", PLACE, "--text", "", cwd=notes).returncode == 0  # empty, and meant so
    assert lace("add", PLACE, "-f", "Title=Only fields", cwd=notes).returncode == 0
    inside = lace("add", PLACE, "--text", "x", cwd=notes)
    assert b"select" not in inside.stderr
    assert b"future" not in inside.stderr
    outside = lace("add", "//notes-demo//other//x", "--text", "x", cwd=notes)
    assert outside.returncode == 0
    assert b"does not select it; lace why-not" in outside.stderr
    late = lace("add", PLACE, "--text", "x", "--tai", "9000000000:000000000", cwd=notes)
    assert late.returncode == 0
    assert b"its time is in the future" in late.stderr


def test_add_in_a_room_says_who_is_no_member(home: Path) -> None:
    ok("init", "room", "--select", "//g//a//", "--room", "alice", cwd=home)
    room = home / "room"
    stray = lace("add", "//g//a/m//1", "--text", "x", "--key", "bob", cwd=room)
    assert b"does not select it; lace why-not" in stray.stderr
    ok("room", "admit", "bob", "--key", "alice", cwd=room)
    again = lace("add", "//g//a/m//2", "--text", "x", "--key", "bob", cwd=room)
    assert b"select" not in again.stderr


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("colour = 1", "knows no"),
        ("store = 1", "is a text"),
        ("peers = 1", "table"),
        ("[peers.x]\nexpect = 'V'", "address"),
        ("[peers]\nx = 1", "peers.x"),
        ("[peers.x]\naddress = 'tcp:h:1'\nexpect = 'bob'", "verifier"),
        ("[room]\nauthority = 'me'", "select"),
        ("select = '//g//a//'\n[room]\nauthority = 'me'", "verifier"),
        ("select = '//g//a//'\n[room]\nremoved = 1", "removed in room is a text"),
        ("select = '//g//a//'\n[room]\ndelegation = true", "delegation in room is a number"),
        ("select = '//g//a//'\n[room]\nroles = 1", "roles in room is a table"),
        ("select = '//g//a//'\n[room.roles]\nx = 1", "text or a list of texts"),
        (f"select = '//g//a//'\n[room]\nauthority = '{VERIFIER}'\nremoved = 'x'", "goes or stays"),
        (f"select = '//g//a//'\n[room]\nauthority = '{VERIFIER}'\ndelegation = 9", "0 to 8"),
        (f"select = '//g//a//x/'\n[room]\nauthority = '{VERIFIER}'", "whole app"),
        ("expose = [1]", "list of texts"),
        ("store = ", "lace.toml"),
        ("#" * ((1 << 20) + 1), "larger"),
    ],
)
def test_settings_that_cannot_be_used_say_why(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "lace.toml").write_text(text)
    with pytest.raises(UsageError, match=what) as caught:
        load(tmp_path)
    assert caught.value.code is Code.SETTINGS_MALFORMED
    assert "lace.toml" in caught.value.message


def test_what_cannot_be_added_says_why(notes: Path, home: Path) -> None:
    ok("init", "bare", cwd=home)
    done = lace("add", PLACE, "--text", "x", cwd=home / "bare")
    assert done.returncode == 2
    assert b"--unsigned" in done.stderr
    for wrong in (
        ("//notes-demo//notes//",), (PLACE, "--text", "x", "--file", "y"),
        (PLACE, "--unsigned", "--key", "bob"), (PLACE, "-f", "Title"), (PLACE, "--tai", "noon"),
        (PLACE, "--file", "missing"), (PLACE, "-f", "Group=x"), (PLACE, "--key", "nobody"),
    ):  # fmt: skip
        done = lace("add", *wrong, cwd=notes)
        assert done.returncode in {1, 2}, wrong
        assert b"Traceback" not in done.stderr
    assert lines(ok("list", cwd=notes)) == []


def test_a_file_is_replaced_where_it_is_asked_for(notes: Path) -> None:
    ok("add", PLACE, "--text", "new", cwd=notes)
    (notes / "out").write_text("old")
    kept = lace("get", PLACE, "--data", "-o", "out", cwd=notes)
    assert (kept.returncode, b"add --force" in kept.stderr) == (2, True)
    assert (notes / "out").read_text() == "old"
    ok("get", PLACE, "--data", "-o", "out", "--force", cwd=notes)
    assert (notes / "out").read_text() == "new"


_EVERY_COMMAND = (
    "add //notes-demo//notes//a --text x", "backup b.lace", "diff . .", "export", "follow peer",
    "get //notes-demo//notes//a", "import x.csv", "invite tcp:example.org:4790", "list",
    "key rotate carol", "log //notes-demo//notes//a", "peers", "room members", "room roles",
    "serve tcp:127.0.0.1:0", "status", "store check", "store forget //a//b//", "store forgotten",
    "store info", "store remember --all", "sync peer", "try //a//b//", "why //notes-demo//notes//a",
    "why-not //notes-demo//notes//a",
)  # fmt: skip


@pytest.mark.parametrize("state", ["gone", "empty"])
def test_a_lace_that_lost_its_store_says_so_and_makes_none(notes: Path, state: str) -> None:
    store = notes / "records.lace"
    ok("add", PLACE, "--text", "here", cwd=notes)
    store.unlink()
    if state == "empty":
        store.touch()
    before = sorted(notes.iterdir())
    (notes.parent / "x.csv").write_text("id\n1\n")
    for words in _EVERY_COMMAND:
        done = lace(*words.split(), cwd=notes)
        assert done.returncode == 1, (words, done.stderr)
        assert b"[store.missing]" in done.stderr, words
        assert b"lace restore" in done.stderr, words
        assert done.stdout == b"", words
        assert sorted(notes.iterdir()) == before, words
    assert not store.exists() or store.stat().st_size == 0
    with pytest.raises(StoreError) as told:
        blocking.open(notes)
    assert told.value.code is Code.STORE_MISSING
    # The flags are about settings, which are there already.
    again = lace("init", ".", "--key", "bob", cwd=notes)
    assert (again.returncode, b"lace.toml exists already" in again.stderr) == (2, True)
    done = lace("init", ".", cwd=notes)
    assert (done.returncode, b"a new store, without records" in done.stderr) == (0, True)
    assert load(notes).key == "alice"
    assert lines(ok("status", cwd=notes))[0]["records"] == 0
    assert lace("init", ".", cwd=notes).returncode == 2


def test_a_store_that_is_named_by_itself_is_made_in_python_only(home: Path) -> None:
    with blocking.open(home / "new.lace") as local:
        assert blocking.count(local, "//a//b//") == 0
    (home / "empty.lace").touch()
    blocking.open(home / "empty.lace").close()
    (home / "zero.lace").touch()
    done = lace("list", "--all", "--lace", "zero.lace", cwd=home)
    assert (done.returncode, b"[store.missing]" in done.stderr) == (1, True)
    assert (home / "zero.lace").stat().st_size == 0


def test_what_is_no_store_and_no_folder_is_called_so(home: Path) -> None:
    (home / "hostname").write_text("machine\n")
    done = lace("list", "--lace", "hostname", cwd=home)
    assert (done.returncode, b"hostname is no record store [store.corrupt]" in done.stderr) == (
        1,
        True,
    )
    for words in (("init", "hostname"), ("room", "new", "hostname", "//c//t//", "--key", "bob")):
        done = lace(*words, cwd=home)
        assert (done.returncode, b"hostname is a file, and a lace is a folder" in done.stderr) == (
            2,
            True,
        )


def test_a_field_narrows_what_the_settings_select(notes: Path) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("b", "red")):
        place = f"//notes-demo//notes//{name}"
        ok("add", place, "-f", f"Colour={colour}", "--text", colour, cwd=notes)
    chosen = lines(ok("list", "-f", "Colour=red", cwd=notes))
    assert [entry["data"] for entry in chosen] == ["red", "red"]
    again = lines(ok("list", "//notes-demo//notes//", "-f", "Colour=red", cwd=notes))
    assert chosen == again
    for words in ((), ("//notes-demo//notes//",)):
        newest = lines(ok("list", *words, "-f", "Colour=blue", "--newest", cwd=notes))
        assert [entry["data"] for entry in newest] == ["blue"]


def test_the_time_of_a_record_is_given_as_any_time_is(notes: Path) -> None:
    for text in ("2026-01-31", "7d", "1700000000:000000000"):
        ok("add", PLACE, "--text", text, "--tai", text, cwd=notes)
    times = {entry["data"]: entry["tai"] for entry in lines(ok("list", cwd=notes))}
    assert times["1700000000:000000000"] == "1700000000:000000000"
    assert ok("list", "--since", times["2026-01-31"], "--limit", "1", cwd=notes)
    assert len(times) == 3


def test_a_journal_is_never_written_over(notes: Path) -> None:
    ok("init", "other", "--select", "//notes-demo//notes//", cwd=notes.parent)
    (notes / "j").write_text("mine")
    done = lace("sync", "../other", "--journal", "j", cwd=notes)
    assert (done.returncode, b"j exists already [input.file]" in done.stderr) == (2, True)
    assert b"Choose another name" in done.stderr
    assert (notes / "j").read_text() == "mine"


def test_a_room_is_at_a_whole_app(home: Path) -> None:
    done = lace("room", "new", "r", "//club//talk", "--key", "bob", cwd=home)
    assert done.returncode == 2
    assert b"'//club//talk' is not a whole app [policy.room]" in done.stderr
    assert b"Write //group//app//." in done.stderr


def test_what_was_forgotten_for_good_is_told_by_why_not(notes: Path) -> None:
    hash = ok("add", PLACE, "--text", "x", cwd=notes).decode().strip()
    ok("store", "forget", PLACE, "--yes", cwd=notes)
    for words in ((), ("--peer", "bob")):
        done = lace("why-not", hash, *words, cwd=notes)
        assert done.returncode == 6
        step = json.loads(done.stdout)["steps"][0]
        assert (step["layer"], step["passed"]) == ("here", False)
        assert "forgotten here for good; lace store remember" in step["detail"]
    ok("store", "remember", hash, cwd=notes)
    step = json.loads(lace("why-not", hash, cwd=notes).stdout)["steps"][0]
    assert step["detail"] == "it is not stored here"


def test_a_keyring_that_cannot_be_written_says_what_to_do(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lace.keyring.write_file", full)
    for words in (("keyring", "new", "dan"), ("contact", "add", "x", demo_key("carol").verifier)):
        done = lace(*words, cwd=home)
        assert done.returncode == 2
        assert b"No space left on device [key.file]" in done.stderr
        assert b"Make room on the disk" in done.stderr
    assert "records can be forgotten" in Code.STORE_FULL.fix
