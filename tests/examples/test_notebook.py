"""The notebook's server: who may join, what is refused, and notes that arrive over a real socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

import lace
import notebook
from lace import blocking

WORD = "swordfish"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "lace.mjs").write_text("export {};\n", encoding="utf-8")
    app = notebook.make_app(tmp_path / "book", word=WORD, bundle=bundle, origin="http://127.0.0.1")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as made:
        yield made
    server.should_exit = True
    thread.join()


def asked(**changes: Any) -> dict[str, Any]:
    good = {"name": "Ann", "word": WORD, "verifier": lace.SigningKey.generate().verifier}
    return good | changes


def write(client: httpx.Client, key: lace.SigningKey, text: str) -> int:
    """Do what the page does: interlace over the WebSocket, with a note of one's own."""
    settings = client.get("/settings.json").json()
    rules = lace.Room(prefix=settings["prefix"], authority=settings["authority"], reads="anyone")
    with lace.open(key=key) as mine:
        note = notebook.NOTE.build("plans", text, {"Title": "Plans"}, key=key)
        blocking.store(mine, [note])
        return len(blocking.sync(mine, settings["address"], rules).sent)


def test_a_member_writes_and_everybody_reads(client: httpx.Client) -> None:
    key = lace.SigningKey.generate()
    assert write(client, key, "too early") == 0
    assert client.get("/notes.json").json() == []
    assert client.post("/join", json=asked(verifier=key.verifier)).status_code == 200
    assert write(client, key, "Go to Oslo.") == 1
    assert client.get("/notes.json").json() == [
        {"title": "Plans", "by": key.verifier, "text": "Go to Oslo."}
    ]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (asked(word="guess"), 403),
        (asked(name=" "), 400),
        (asked(name="x" * 41), 400),
        (asked(name="a\nb"), 400),
        (asked(verifier="V.short.H3"), 400),
        (asked(verifier="../../etc"), 400),
        (asked(verifier=5), 400),
        ({"name": "Ann"}, 400),
        ([], 400),
    ],
)
def test_what_is_wrong_is_said_and_admits_nobody(
    client: httpx.Client, body: Any, status: int
) -> None:
    answer = client.post("/join", json=body)
    assert answer.status_code == status
    assert answer.json()["wrong"]


def test_long_and_broken_requests_are_refused(client: httpx.Client) -> None:
    assert client.post("/join", content=b"x" * 5000).status_code == 413
    assert client.post("/join", content=b"{").status_code == 400
    assert client.post("/join", content=b"[" * 4000).status_code == 400


def test_guessing_closes_the_door(client: httpx.Client) -> None:
    for _ in range(notebook.MOST_WRONG):
        assert client.post("/join", json=asked(word="guess")).status_code == 403
    assert client.post("/join", json=asked()).status_code == 429


def test_the_page_and_its_policy(client: httpx.Client) -> None:
    page = client.get("/")
    address = client.get("/settings.json").json()["address"]
    policy = page.headers["content-security-policy"]
    assert f"connect-src 'self' {address}" in policy
    assert "unsafe-inline" not in policy
    assert "<script>" not in page.text
    assert client.get("/page.mjs").headers["content-type"].startswith("text/javascript")
    assert client.get("/lace/lace.mjs").status_code == 200
    assert client.get("/lace/%2e%2e/%2e%2e/book/authority.key").status_code == 404


def test_the_key_is_kept_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "authority.key"
    first = notebook.read_authority(path)
    assert notebook.read_authority(path).verifier == first.verifier
    assert path.stat().st_mode & 0o077 == 0


def test_without_a_bundle_it_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert notebook.main([str(tmp_path / "book"), "--bundle", str(tmp_path)]) == 1
    assert "make bundle" in capsys.readouterr().err
