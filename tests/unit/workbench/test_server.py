"""The workbench's server on a real port: who comes in, what is answered, what is not."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
from bench_page import workbench
from command import lace
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from lace.scenario.library import library
from lace.workbench import server
from lace.workbench.export import export
from lace.workbench.server import PROTOCOL, STATIC
from lace.workbench.single import single_page

PACKAGE = Path(__file__).parents[3] / "web" / "package.json"


@pytest.fixture(scope="module")
def link() -> Iterator[str]:
    with workbench() as url:
        yield url


@pytest.fixture
def client(link: str) -> Iterator[httpx.Client]:
    """A page that was opened by the link."""
    headers = {"Authorization": f"Bearer {token_of(link)}"}
    with httpx.Client(base_url=base_of(link), headers=headers) as made:
        assert made.get("/").status_code == 200
        yield made


def base_of(link: str) -> str:
    return link.split("/#", maxsplit=1)[0]


def token_of(link: str) -> str:
    return parse_qs(urlsplit(link).fragment)["token"][0]


def host_of(link: str) -> str:
    return urlsplit(link).netloc


def test_it_listens_on_this_machine_alone(link: str) -> None:
    assert host_of(link).startswith("127.0.0.1:")


def test_nothing_of_a_story_is_answered_without_the_token(link: str) -> None:
    token = token_of(link)
    for headers in (
        {}, {"Authorization": "Bearer guess"}, {"Authorization": token}, {"Cookie": f"token={token}"},
        {"Cookie": f"lace_workbench={token}"}, {"Authorization": f"Basic {token}"},
    ):  # fmt: skip
        for path in ("notes-room", "cache-fill", "nothing"):
            answer = httpx.get(f"{base_of(link)}/recordings/{path}.json", headers=headers)
            assert answer.status_code == 403
            assert "lace workbench" in answer.text
    assert httpx.get(f"{base_of(link)}/recordings/notes-room.json?token={token}").status_code == 403


def test_the_token_stands_where_no_browser_sends_it_and_no_cookie_is_set(link: str) -> None:
    """A cookie of 127.0.0.1 goes to each of its ports, whichever program listens there."""
    parts = urlsplit(link)
    assert parts.query == ""
    assert parts.fragment.startswith("token=")
    for path in ("/", "/app.js", "/recordings/notes-room.json", f"/?token={token_of(link)}"):
        answer = httpx.get(
            base_of(link) + path, headers={"Authorization": f"Bearer {token_of(link)}"}
        )
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        assert token_of(link) not in answer.text


def test_another_hosts_name_is_refused(client: httpx.Client) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/app.js", headers={"Host": "evil.example"}).status_code == 403


def test_every_answer_is_strict(client: httpx.Client) -> None:
    for path in ("/", "/app.js", "/nothing", "/recordings/cache-fill.json"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_only_the_pages_own_files_are_there(client: httpx.Client) -> None:
    assert client.get("/app.js").headers["content-type"].startswith("text/javascript")
    for path in (
        "/../session.py",
        "/%2e%2e/session.py",
        "/..%2fserver.py",
        "//etc/passwd",
        "/parts",
        "/recordings/x.json",
        "/%00",
        "/recordings/%00.json",
        f"/{'x' * 5000}",
    ):
        assert client.get(path).status_code in {403, 404}
    recording = client.get("/recordings/revocation.json").json()
    assert recording["scenario"]["name"] == "revocation"


def own_page(link: str) -> dict[str, str]:
    return {"Origin": f"http://{host_of(link)}"}


def protocols(token: str) -> list[Subprotocol]:
    return [Subprotocol(PROTOCOL), Subprotocol(token)]


def talk(
    link: str, headers: dict[str, str], *commands: str, shows: list[Subprotocol] | None = None
) -> list[dict[str, Any]]:
    async def go() -> list[dict[str, Any]]:
        address = f"ws://{host_of(link)}/session"
        shown = protocols(token_of(link)) if shows is None else shows
        async with connect(
            address, additional_headers=headers, origin=None, max_size=None, subprotocols=shown
        ) as socket:
            assert socket.subprotocol == PROTOCOL  # the token is not said back
            answers = []
            for command in commands:
                await socket.send(command)
                answers.append(json.loads(await socket.recv()))
            return answers

    return asyncio.run(go())


def test_the_page_talks_to_a_session(link: str) -> None:
    headers = own_page(link)
    hello, opened, nonsense = talk(
        link,
        headers,
        '{"do":"hello","id":1}',
        '{"do":"open","name":"cache-fill","id":2}',
        "{nonsense",
    )
    assert len(hello["scenarios"]) == len(library())
    assert opened["recording"]["scenario"]["title"] == "Cache fill"
    assert nonsense["type"] == "problem"


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1", "null", ""])
def test_a_page_from_elsewhere_gets_no_session(link: str, origin: str) -> None:
    with pytest.raises((InvalidStatus, ConnectionClosed)):
        talk(link, {"Origin": origin}, '{"do":"hello"}')


@pytest.mark.parametrize(
    "case", ["nothing", "guess", "token alone", "other order", "more", "cookie"]
)
def test_without_the_token_there_is_no_session(link: str, case: str) -> None:
    first, second = protocols(token_of(link))
    shows = {
        "nothing": [], "guess": protocols("guess"), "token alone": [second],
        "other order": [second, first], "more": [first, second, Subprotocol("x")], "cookie": [first],
    }[case]  # fmt: skip
    headers = own_page(link) | {"Cookie": f"lace_workbench={token_of(link)}"}
    with pytest.raises((InvalidStatus, ConnectionClosed)):
        talk(link, headers, '{"do":"hello"}', shows=shows)
    assert talk(link, own_page(link), '{"do":"hello"}')[0]["type"] == "hello"


def test_a_command_that_is_too_large_ends_its_session_alone(link: str) -> None:
    headers = own_page(link)
    with pytest.raises(ConnectionClosed):
        talk(link, headers, json.dumps({"do": "check", "text": "x" * 2_000_000}))
    assert talk(link, headers, '{"do":"hello"}')[0]["type"] == "hello"


def test_bytes_in_place_of_text_end_their_session_alone(link: str) -> None:
    headers = own_page(link)

    async def go() -> int | None:
        address = f"ws://{host_of(link)}/session"
        async with connect(
            address, additional_headers=headers, origin=None, subprotocols=protocols(token_of(link))
        ) as socket:
            await socket.send(b"\xff\x00")
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            return socket.close_code

    assert asyncio.run(go()) == 1003
    assert talk(link, headers, '{"do":"hello"}')[0]["type"] == "hello"


def test_a_scenario_of_ones_own_is_opened_by_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        library()["cache-fill"].read_text(encoding="utf-8").replace("Cache fill", "Mine"),
        encoding="utf-8",
    )
    with workbench(str(mine)) as url:
        headers = own_page(url)
        (hello,) = talk(url, headers, '{"do":"hello"}')
        (opened,) = talk(url, headers, json.dumps({"do": "open", "name": hello["first"]}))
        assert opened["recording"]["scenario"]["title"] == "Mine"
        assert hello["scenarios"][-1] == {"name": "mine", "title": "Mine"}
        shown = {"Authorization": f"Bearer {token_of(url)}"}
        answer = httpx.get(f"{base_of(url)}/recordings/mine.json", headers=shown)
        assert answer.json()["scenario"]["title"] == "Mine"
        (refused,) = talk(url, headers, json.dumps({"do": "open", "name": str(mine)}))
        assert refused["type"] == "problem"  # a page names no files
        mine.unlink()
        hello, gone, other = talk(
            url, headers, '{"do":"hello"}', '{"do":"open","name":"mine"}',
            '{"do":"open","name":"embargo"}',
        )  # fmt: skip
        assert [one["name"] for one in hello["scenarios"]] == list(library())
        assert gone["type"] == "problem"
        assert other["type"] == "recording"


def test_one_file_holds_the_whole_page_and_lets_in_nothing_else() -> None:
    page = single_page(STATIC, {'a"b': '{"x": "</script><script>alert(1)</script>"}'})
    assert "</script><script>alert" not in page
    assert 'id="recording-a&quot;b"' in page
    (table,) = re.findall(r'<script type="importmap">(.*)</script>', page)
    imports = json.loads(table)["imports"]
    for name, address in imports.items():
        text = base64.b64decode(address.split(",", 1)[1]).decode()
        wanted = re.findall(r'(?:from|import) ?\(?"(lace/[^"]+|\.[^"]+)"', text)
        assert set(wanted) <= {*imports, "lace/types.js"}, name  # types are comments
    assert "lace/parts/lace.js" in imports
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)[0]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.parametrize("link", ["http://x/#", "http://x/", "https://x/#z=<b>", "http://x/#q=1"])
def test_a_link_that_carries_nothing_is_refused(link: str) -> None:
    done = lace("workbench", link)
    assert done.returncode == 2
    assert b"the link carries no scenario" in done.stderr


def test_an_export_is_complete_and_leaves_other_folders_alone(tmp_path: Path) -> None:
    done = lace("workbench", "--export", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    names = {
        path.relative_to(tmp_path / "site").as_posix()
        for path in (tmp_path / "site").rglob("*")
        if path.is_file()
    }
    assert {f"recordings/{name}.json" for name in library()} <= names
    assert b"workbench.html: all of it in one file" in done.stdout
    assert {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js")} <= names
    index = json.loads((tmp_path / "site/recordings/index.json").read_text(encoding="utf-8"))
    assert len(index["scenarios"]) == len(library())
    export(tmp_path / "site", ["notes-room"])  # again, over what was exported
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    done = lace("workbench", "--export", tmp_path / "mine")
    assert done.returncode == 2
    assert b"is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_an_unknown_scenario_is_said_at_once() -> None:
    done = lace("workbench", "notesroom")
    assert done.returncode == 2
    assert b"Did you mean notes-room?" in done.stderr


def test_the_page_names_nothing_outside() -> None:
    for path in STATIC.rglob("*"):
        if path.suffix in {".html", ".js", ".css", ".svg"} and "vendor" not in path.parts:
            text = path.read_text(encoding="utf-8")
            addresses = re.findall(r"https?://[^\s\"'`<>)]+", text)
            assert [a for a in addresses if not a.startswith("http://www.w3.org/")] == [], path


def test_the_icon_lies_in_the_page_and_is_the_same() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    found = re.search(r'rel="icon"[^>]*href="data:image/svg\+xml,([^"]+)"', page)
    assert found is not None
    icon = (STATIC / "icon.svg").read_text("utf-8").replace('"', "'")
    assert "".join(unquote(found[1]).split()) == "".join(icon.split())


def test_a_file_that_cannot_run_is_there(client: httpx.Client, tmp_path: Path) -> None:
    assert client.get("/app.js").headers["Cache-Control"] == "no-cache"
    broken = tmp_path / "not mine.toml"
    broken.write_text("x = 1\n", encoding="utf-8")
    with workbench(str(broken)) as link:
        assert link.endswith("&s=not%20mine")
        shown = {"Authorization": f"Bearer {token_of(link)}"}
        answer = httpx.get(f"{base_of(link)}/recordings/not%20mine.json", headers=shown)
        assert (answer.status_code, answer.json()) == (200, None)


def test_a_page_that_another_task_found_gone_is_gone_for_all() -> None:
    async def main() -> None:
        async def never(*_given: object) -> Any:
            raise AssertionError("nothing is sent to a page that is gone")

        socket = WebSocket({"type": "websocket"}, never, never)
        socket.application_state = WebSocketState.DISCONNECTED
        with pytest.raises(WebSocketDisconnect):
            await server._send(socket, "text")

    asyncio.run(main())
