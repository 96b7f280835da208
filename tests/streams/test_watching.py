"""A server's exchanges, looked at while they happen: only with the token, and never more than that."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from command import lace
from servers import process
from small_limits import hold_to

from lace.crypto.keys import demo_key
from lace.errors import UsageError
from lace.record import build_plex, seal
from lace.recordstore.sqlite import SqliteStore
from lace.serving.watching import Watching, read_token
from lace.workbench.live import Live
from lace.workbench.session import Session
from lace.workbench.shapes import fault_of, shapes

TOKEN = "a-token-of-some-length"
PLACE = "//notes-demo//notes//"
TIME = "1700000000:000000000"
KEY = demo_key("somebody")


def get(path: str, token: str = TOKEN, method: str = "GET") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    return head.encode()


def test_without_the_token_nothing_is_told() -> None:
    held = Watching(TOKEN)
    held.journal(1, "host", None).write("line\n")
    for request in (
        get("/exchanges", "another-token-of-it"),
        get("/exchanges/1", TOKEN[:-1]),
        get("/exchanges", TOKEN + "x"),
        b"GET /exchanges HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /exchanges?token=%s HTTP/1.1\r\n\r\n" % TOKEN.encode(),
    ):
        assert held.answer(request) == ("403 Forbidden", "the token is needed\n")
    assert held.answer(get("/exchanges/1")) == ("200 OK", "line\n")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/exchanges"), ("GET", "/"), ("GET", "/exchanges/x"), ("GET", "/exchanges/1/../2"),
     ("DELETE", "/exchanges/1"), ("GET", "/exchanges/" + "9" * 40)],
)  # fmt: skip
def test_it_can_be_asked_for_exchanges_and_nothing_else(method: str, path: str) -> None:
    held = Watching(TOKEN)
    held.journal(1, "host", None).write("line\n")
    assert held.answer(get(path, method=method))[0] == "404 Not Found"


def test_it_holds_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to(monkeypatch, watched_exchanges=2, watched_bytes=10)
    held = Watching(TOKEN)
    journals = {number: held.journal(number, "host", None) for number in (1, 2)}
    held.end(2)
    held.journal(3, "host", None)  # the one that has ended goes first
    assert held.answer(get("/exchanges/2"))[0] == "404 Not Found"
    for _ in range(3):
        journals[1].write("12345\n")
    assert held.answer(get("/exchanges/1")) == ("200 OK", "12345\n")
    assert '"cut": true' in held.answer(get("/exchanges"))[1]
    held.journal(4, "host", None)
    assert held.answer(get("/exchanges/1"))[0] == "404 Not Found"


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "token"
    with pytest.raises(UsageError, match="cannot read the token"):
        read_token(place)
    made = read_token(place, make=True)
    assert read_token(place, make=True) == read_token(place) == made
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    for text in ("", "short", "two words that are long", "x" * 500):
        place.write_text(text)
        with pytest.raises(UsageError, match="holds no token"):
            read_token(place)


def test_a_served_exchange_is_shown_with_its_reasons(tmp_path: Path) -> None:
    notes, here = tmp_path / "notes.lace", tmp_path / "here.lace"
    for path, name in ((notes, "there"), (here, "here")):
        plex = build_plex(group="notes-demo", app="notes/message", name=name, tai=TIME, data=b"Hi")
        with SqliteStore(path) as store:
            store.save([seal(plex, KEY)])
    token = tmp_path / "token"
    arguments = (
        "--select",
        PLACE,
        "--accept",
        "anyone",
        "--watch",
        "0",
        "--watch-token",
        str(token),
    )
    with process(tmp_path, notes, "tcp:127.0.0.1:0", *arguments) as server:
        address = server.wait_for("watch")[0]["address"]
        live = Live(address, read_token(token))
        assert live.listed() == []
        done = lace("sync", server.addresses[0], "--lace", here, "--select", PLACE)
        assert done.returncode == 0, done.stderr
        (listed,) = live.listed()
        assert listed["title"].startswith("Exchange 1 with 127.0.0.1: ")
        session = Session(live=live)
        hello = session.handle({"do": "hello"})[0]
        assert hello["live"] is True
        assert hello["first"] == "exchange-1"
        (answer,) = session.handle({"do": "open", "name": "exchange-1"})
        recording = answer["recording"]
        assert fault_of(recording, ["shape", "Recording"], shapes()) is None
        assert {record["id"] for record in recording["records"].values()} == {"here", "there"}
        assert session.handle({"do": "open", "name": "exchange-9"})[0]["type"] == "problem"
        with pytest.raises(UsageError, match="does not know the token"):
            Live(address, "another-token-of-it").listed()
    with pytest.raises(UsageError, match="does not answer"):
        live.listed()
