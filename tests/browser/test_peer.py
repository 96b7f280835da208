"""A page is a peer: over real sockets, in several tabs, after reloads and without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench_page import chromium, guarded_site, static_site
from playwright.sync_api import Browser, Page, expect
from servers import Process, process

import lace
from lace import blocking
from lace.crypto.keys import demo_key

LOADING = 90_000
ROOM = "//notes-demo//notes//"
NOTE = lace.RecordKind(group="notes-demo", app="notes/message")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that takes the certificate of a server under development."""
    with chromium("--ignore-certificate-errors") as made:
        yield made


@pytest.fixture(scope="module")
def site(bundle: Path) -> Iterator[str]:
    with static_site(bundle) as url:
        yield url


@pytest.fixture
def server(tmp_path: Path, site: str) -> Iterator[Process]:
    """A real server with a note in it, that lets the page in, by ws and by wss."""
    with lace.open(tmp_path / "notes.lace") as notes:
        blocking.store(notes, [NOTE.build("server/1", "from the server", key=demo_key("server"))])
    addresses = ("ws:127.0.0.1:0", "wss:127.0.0.1:0", "--dev-cert", "certificates")
    allowed = ("--select", ROOM, "--accept", "anyone", "--allow-origin", site.rstrip("/"))
    with process(tmp_path, "notes.lace", *addresses, *allowed, listeners=2) as running:
        yield running


def url(server: Process, scheme: str) -> str:
    (address,) = (one for one in server.addresses if one.startswith(f"{scheme}:"))
    return address.replace(":", "://", 1)


def blank(page: Page, site: str) -> Page:
    """A page of the site that has nothing on it."""
    page.set_default_timeout(LOADING)
    page.goto(f"{site}LICENSES.txt")
    return page


def run(page: Page, script: str, *given: Any) -> Any:
    """Run a script with everything that the package exports, and what an earlier one kept."""
    begin = "const L = await import('/lace.mjs'); const kept = (globalThis.kept ??= {});"
    names = "const { IndexedDbLace, Lace, selector } = L;"
    return page.evaluate(f"async (given) => {{ {begin} {names} {script} }}", list(given))


def notes_of(folder: Path) -> set[str]:
    with lace.open(folder / "notes.lace") as notes:
        return {record.data.decode() for record in blocking.list(notes, ROOM)}


def until(page: Page, condition: str) -> None:
    page.wait_for_function(condition, timeout=LOADING)


@pytest.mark.req("000-API-02", "000-API-13")
@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_a_page_opens_a_lace_and_follows_a_server(
    page: Page, site: str, bundle: Path, server: Process, tmp_path: Path, scheme: str
) -> None:
    """Open, connect, list, open an exchange and go on with every record, in a plain page."""
    html = f"""<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><ol></ol>
    <script type="module">
      import {{ IndexedDbLace, Lace, for_each, list, open_interlace, selector }} from "/lace.mjs";
      const mine = [{{ place: "//notes-demo//notes/message//page/1", data: "from the page" }}];
      const local = await IndexedDbLace.open("room-{scheme}", {{ records: mine }});
      const server = await Lace.connect_websocket("{url(server, scheme)}");
      const before = await list(local, selector("//notes-demo//notes/message//"));
      document.title = before.map((note) => note.text).join();
      globalThis.exchange = await open_interlace(local, server, selector("{ROOM}"));
      for await (const note of for_each(local, selector("//notes-demo//notes/message//"))) {{
        const item = document.createElement("li");
        item.textContent = note.text;
        document.querySelector("ol").append(item);
      }}
    </script>"""
    (bundle / f"room-{scheme}.html").write_text(html, encoding="utf-8")
    page.set_default_timeout(LOADING)
    page.goto(f"{site}room-{scheme}.html")
    items = page.locator("li")
    expect(items).to_have_count(2, timeout=LOADING)
    assert page.title() == "from the page"
    assert set(items.all_inner_texts()) == {"from the page", "from the server"}
    server.wait_for("fixed-point")
    # What is stored at the server later comes by itself.
    with lace.open(tmp_path / "notes.lace") as notes:
        blocking.store(notes, [NOTE.build("server/2", "a later note")])
    expect(items).to_have_count(3, timeout=LOADING)
    page.evaluate("globalThis.exchange.close()")
    assert notes_of(tmp_path) == {"from the page", "from the server", "a later note"}


def test_bytes_in_and_out_sync_and_what_a_server_is_asked(
    page: Page, site: str, server: Process, tmp_path: Path
) -> None:
    sealed = NOTE.build("bytes/1", bytes(range(256)), {}, key=demo_key("somebody"))
    answer = run(
        blank(page, site),
        """
        const [raw, address, room] = given;
        const bytes = new Uint8Array(raw);
        const local = await IndexedDbLace.open("bytes");
        const stored = await L.store(local, [bytes, bytes, bytes.subarray(1)]);
        const done = await L.sync(local, address, room);
        const again = await L.sync(local, await Lace.connect_websocket(address), selector(room));
        const found = await L.get(local, "//notes-demo//notes/message//bytes/1");
        const peer = await Lace.connect_websocket(address);
        const there = await L.list(peer, room);
        const put = await L.store(peer, [{ place: "//notes-demo//notes/message//put/1", data: "put" }]);
        return {
          stored, done, again, bytes: [...found.bytes], data: [...found.data], author: found.author,
          there: there.map((note) => note.hash).sort(), put,
          none: await L.get(local, "//notes-demo//notes/message//nothing"),
          gone: await L.forget(local, room), left: (await L.list(local, room)).length,
        };
        """,
        list(sealed.raw),
        url(server, "ws"),
        ROOM,
    )
    assert [one["status"] for one in answer["stored"]] == ["accepted", "duplicate", "rejected"]
    assert answer["stored"][2]["code"].startswith("record.")
    assert answer["done"]["sent"] == [sealed.hash]
    assert len(answer["done"]["received"]) == 1
    assert answer["again"]["received"] == answer["again"]["sent"] == []
    assert bytes(answer["bytes"]) == sealed.raw
    assert bytes(answer["data"]) == bytes(range(256))
    assert answer["author"] == demo_key("somebody").verifier
    assert sealed.hash in answer["there"]
    assert [one["status"] for one in answer["put"]] == ["accepted"]
    assert answer["none"] is None
    assert (answer["gone"], answer["left"]) == (2, 0)
    with lace.open(tmp_path / "notes.lace") as notes:
        assert sealed in blocking.list(notes, ROOM)
        put = blocking.get(notes, "//notes-demo//notes/message//put/1")
        assert put is not None
        assert put.data == b"put"


def test_an_exchange_connects_again_and_tells_what_happens(
    page: Page, site: str, tmp_path: Path
) -> None:
    allowed = ("--select", ROOM, "--accept", "anyone", "--allow-origin", site.rstrip("/"))
    with process(tmp_path, "notes.lace", "ws:127.0.0.1:0", *allowed) as first:
        run(
            blank(page, site),
            """
            kept.local = await IndexedDbLace.open("again");
            kept.exchange = await kept.local.open_interlace(given[0], given[1]);
            await kept.exchange.fixed_point();
            kept.told = [];
            const listen = async () => {
              for await (const event of kept.exchange) kept.told.push(event);
              kept.over = true;
            };
            listen();
            """,
            address := url(first, "ws"),
            ROOM,
        )
        port = first.address.port
    until(page, "globalThis.kept.told.some((event) => event.event === 'retry')")
    run(
        page, "await kept.local.store([{ place: '//notes-demo//notes/message//late', data: '!' }]);"
    )
    with process(tmp_path, "notes.lace", f"ws:127.0.0.1:{port}", *allowed) as second:
        assert url(second, "ws") == address
        until(page, "globalThis.kept.told.some((event) => event.event === 'fixed-point')")
        run(page, "await kept.exchange.close();")
        until(page, "globalThis.kept.over")
    assert notes_of(tmp_path) == {"!"}


def test_a_server_that_does_not_let_the_page_in_is_told_as_an_error(
    page: Page, site: str, tmp_path: Path, faults: list[str]
) -> None:
    with process(tmp_path, "notes.lace", "ws:127.0.0.1:0", "--select", ROOM) as closed:
        told = run(
            blank(page, site),
            "const local = await IndexedDbLace.open('refused');"
            "try { await local.sync(given[0], given[1]); } catch (e) { return [e.name, e.code, e.hint]; }",
            url(closed, "ws"),
            ROOM,
        )
    assert told[:2] == ["LaceError", "transport.connect"]
    assert f"--allow-origin {site.rstrip('/')}" in told[2]
    faults[:] = [fault for fault in faults if "WebSocket" not in fault]  # Chromium says it too


def test_mistakes_of_callers_are_errors_with_a_code_and_a_hint(page: Page, site: str) -> None:
    calls = [
        "IndexedDbLace.open(5)",
        "IndexedDbLace.open('a/b')",
        "IndexedDbLace.open('x', { secrets: 1 })",
        "IndexedDbLace.open('x', { secret: 'nonsense' })",
        "IndexedDbLace.open('x', { records: 'text' })",
        "Lace.connect_websocket('http://example.com')",
        "Lace.connect_websocket(7)",
        "L.list('mistakes', '//g//a//')",
        "L.list(local)",
        "L.list(local, '//nonsense')",
        "L.list(local, 'SelectHave(N) :- Hve(N).')",
        "L.store(local, { place: '//g//a//n' })",
        "L.store(local, [{ at: '//g//a//n' }])",
        "L.store(local, [{ place: '//g//a//' }])",
        "L.store(local, [{ place: '//g//a//n', data: 5 }])",
        "L.store(local, [null])",
        "L.get(local, '//g//a//')",
        "L.sync(local, 5, '//g//a//')",
        "L.sync(local, 'tcp:127.0.0.1:1', '//g//a//')",
        "L.room('//g//a//', {})",
        "L.room('//g//a//', { authority: 'V.x', remove: 'stays' })",
        "L.list(local, L.room('//g//a//', { authority: 'V.x' }))",
        "L.subscribe(local, '//g//a//', 5)",
        "closed.list('//g//a//')",
    ]
    answers = run(
        blank(page, site),
        """
        const local = await IndexedDbLace.open("mistakes");
        const closed = await IndexedDbLace.open("closed");
        await closed.close();
        const told = [];
        for (const call of given[0]) {
          const made = new Function("L", "Lace", "IndexedDbLace", "local", "closed", `return ${call}`);
          try { await made(L, Lace, IndexedDbLace, local, closed); told.push([call, "no error"]); }
          catch (e) { told.push([call, e.name, e.code, e.message, e.hint]); }
        }
        return told;
        """,
        calls,
    )
    for answer in answers:
        call, name, code, message, hint = answer
        assert name == "LaceError", answer
        assert code, answer
        assert message, answer
        assert hint, answer
        assert "TypeError" not in message, call
        assert "KeyError" not in message, call


@pytest.mark.req("000-API-02")
def test_tabs_follow_the_one_that_writes_and_one_takes_over(
    page: Page, site: str, server: Process, tmp_path: Path
) -> None:
    """Several tabs have one lace: nothing is lost, and what was begun goes on when the first goes."""
    opening = (
        "kept.local = await IndexedDbLace.open('shared', { secret: await Lace.demo_secret('tabs') });"
        "kept.seen = []; L.subscribe(kept.local, given[0], (note) => kept.seen.push(note.text));"
        "return kept.local.leads();"
    )
    put = "return (await kept.local.store([{ place: given[0], data: given[1] }]))[0].status;"
    first, second = blank(page, site), blank(page.context.new_page(), site)
    assert run(first, opening, ROOM) is True
    assert run(second, opening, ROOM) is False
    assert run(first, put, "//notes-demo//notes/message//1", "one") == "accepted"
    assert run(second, put, "//notes-demo//notes/message//2", "two") == "accepted"
    for tab in (first, second):
        until(tab, "globalThis.kept.seen.length === 2")
        assert sorted(run(tab, "return kept.seen;")) == ["one", "two"]
    assert run(second, "return (await kept.local.list(given[0])).length;", ROOM) == 2
    assert run(second, "return kept.local.verifier;") == demo_key("tabs").verifier
    # The second tab opens an exchange, which the first one has; then the first one goes.
    run(
        second,
        "kept.exchange = await kept.local.open_interlace(given[0], given[1]);"
        "await kept.exchange.fixed_point();",
        url(server, "ws"),
        ROOM,
    )
    assert notes_of(tmp_path) == {"from the server", "one", "two"}
    assert run(second, "return kept.local.leads();") is False
    first.close()
    assert run(second, put, "//notes-demo//notes/message//3", "three") == "accepted"
    assert run(second, "return kept.local.leads();") is True
    until(second, "globalThis.kept.seen.length === 4")
    assert sorted(run(second, "return kept.seen;")) == ["from the server", "one", "three", "two"]
    server.wait_for("connected", 2)
    while "three" not in notes_of(tmp_path):
        second.wait_for_timeout(50)
    # Who comes with another secret, or with none, is told so.
    third = blank(second.context.new_page(), site)
    told = run(
        third,
        "try { await IndexedDbLace.open('shared'); } catch (e) { return [e.code, e.message]; }",
    )
    verifier = demo_key("tabs").verifier
    assert told == ["input.key", f"shared is open in another tab, with {verifier}"]
    told = run(
        second,
        "try { await IndexedDbLace.open('shared', { secret: await Lace.new_secret() }); }"
        "catch (e) { return [e.code, e.message]; }",
    )
    assert told == ["input.key", f"shared is open already, with {verifier}"]
    # Closed in the tab that writes, it opens in the other one, with everything.
    run(second, "await kept.exchange.close(); await kept.local.close();")
    assert run(third, opening, ROOM) is True
    assert run(third, "return (await kept.local.list(given[0])).length;", ROOM) == 4


def test_streams_of_a_tab_that_is_gone_end_with_it(page: Page, site: str, server: Process) -> None:
    """An exchange that a tab opened through another one does not outlive the tab."""
    first, second = blank(page, site), blank(page.context.new_page(), site)
    run(first, "kept.local = await IndexedDbLace.open('guests');")
    run(
        second,
        "kept.local = await IndexedDbLace.open('guests');"
        "kept.exchange = await kept.local.open_interlace(given[0], given[1]);"
        "await kept.exchange.fixed_point();",
        url(server, "ws"),
        ROOM,
    )
    assert not server.events("closed")
    second.close()
    server.wait_for("closed")


def test_a_lace_of_an_older_version_is_brought_along(page: Page, site: str, tmp_path: Path) -> None:
    """What was kept as one SQLite file becomes entries, once, and the file is gone."""
    old = [NOTE.build(f"old/{number}", f"old {number}") for number in range(3)]
    with lace.open(tmp_path / "old.lace") as notes:
        blocking.store(notes, old)
    file = list((tmp_path / "old.lace").read_bytes())
    blank(page, site)
    page.evaluate(
        """async (bytes) => {
          const request = indexedDB.open("/laces/older", 21);
          request.onupgradeneeded = () => request.result.createObjectStore("FILE_DATA");
          await new Promise((resolve) => { request.onsuccess = resolve; });
          const writing = request.result.transaction("FILE_DATA", "readwrite");
          writing.objectStore("FILE_DATA").put(
            { timestamp: new Date(), mode: 33206, contents: new Uint8Array(bytes) },
            "/laces/older/records.lace");
          await new Promise((resolve) => { writing.oncomplete = resolve; });
          request.result.close();
        }""",
        file,
    )
    listed = (
        "const made = await IndexedDbLace.open('older');"
        "return (await made.list(given[0])).map((note) => note.hash).sort();"
    )
    assert run(page, listed, ROOM) == sorted(record.hash for record in old)
    assert page.evaluate(
        "indexedDB.databases().then((all) => all.map((one) => one.name).sort())"
    ) == ["lace:older"]
    page.reload()
    assert run(page, listed, ROOM) == sorted(record.hash for record in old)
    entries = page.evaluate(
        """async () => {
          const request = indexedDB.open("lace:older");
          await new Promise((resolve) => { request.onsuccess = resolve; });
          const all = request.result.transaction("records").objectStore("records").getAll();
          await new Promise((resolve) => { all.onsuccess = resolve; });
          request.result.close();
          return all.result.map((raw) => [...raw]);
        }"""
    )
    assert sorted(map(bytes, entries)) == sorted(record.raw for record in old)


def test_a_page_is_loaded_again_without_a_network(
    page: Page, bundle: Path, tmp_path: Path, faults: list[str]
) -> None:
    """With Lace in a folder of its own, and the web server gone."""
    (tmp_path / "lace").symlink_to(bundle)
    worker = 'self.lace = "./lace/"; importScripts("./lace/offline.js");'
    (tmp_path / "offline.js").write_text(worker, encoding="utf-8")
    html = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><p></p>
    <script type="module">
      import { IndexedDbLace, offline } from "./lace/lace.mjs";
      const local = await IndexedDbLace.open("offline");
      await local.store([{ place: `//g//a//${Date.now()}`, data: "x" }]);
      await offline("offline.js");
      const found = await local.list("//g//a//");
      document.querySelector("p").textContent = `${found.length} ready`;
    </script>"""
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    with static_site(tmp_path) as url:
        page.goto(f"{url}page.html")
        expect(page.locator("p")).to_have_text("1 ready", timeout=LOADING)
    page.reload()  # nobody listens there any more
    expect(page.locator("p")).to_have_text("2 ready", timeout=LOADING)
    faults[:] = [fault for fault in faults if "ERR_CONNECTION_REFUSED" not in fault]


def test_the_policy_that_the_documents_name_is_enough(
    page: Page, bundle: Path, tmp_path: Path
) -> None:
    """A page and its worker run under the Content-Security-Policy that docs/browser.md gives."""
    document = Path(__file__).parent.parent.parent / "docs" / "browser.md"
    (line,) = (
        line
        for line in document.read_text(encoding="utf-8").splitlines()
        if "script-src 'self'" in line
    )
    allowed = ("--select", ROOM)
    (bundle / "strict.html").write_text(
        '<!doctype html><link rel="icon" href="icon.png"><script type="module" src="strict.mjs"></script>',
        encoding="utf-8",
    )
    (bundle / "icon.png").write_bytes(b"")
    with process(
        tmp_path, "notes.lace", "ws:127.0.0.1:0", *allowed, "--allow-origin", "http://127.0.0.1:0"
    ) as other:
        script = f"""import {{ IndexedDbLace, sync }} from "./lace.mjs";
        const local = await IndexedDbLace.open("strict");
        await local.store([{{ place: "//g//a//n", data: "kept" }}]);
        try {{ await sync(local, "{url(other, "ws")}", "{ROOM}"); }}
        catch (error) {{ document.title = `${{(await local.list("//g//a//")).length}} ${{error.code}}`; }}
        """
        (bundle / "strict.mjs").write_text(script, encoding="utf-8")
        policy = line.replace("wss://example.com", url(other, "ws"))
        with guarded_site(bundle, f"default-src 'none'; img-src 'self'; {policy}") as address:
            page.goto(f"{address}strict.html")
            expect(page).to_have_title("1 transport.connect", timeout=LOADING)


def test_rooms_and_rules_select_in_a_page(page: Page, site: str) -> None:
    authority, bob, carol, dan = map(demo_key, ("authority", "bob", "carol", "dan"))
    grant = lace.RecordKind(group="g", app="notes/member", fields=("Member", "Role"))
    end = lace.RecordKind(group="g", app="notes/member", fields=("Member", "Ended"))
    note = lace.RecordKind(group="g", app="notes/message")
    records = [
        grant.build("bob", fields={"Member": bob.verifier, "Role": "writer"}, key=authority),
        note.build("1", "belongs", key=bob),
        note.build("2", "does not", key=demo_key("stranger")),
        # What a member wrote who was removed, and what a reader wrote, belong as little.
        grant.build("carol", fields={"Member": carol.verifier, "Role": "writer"}, key=authority),
        note.build("3", "removed", key=carol),
        end.build("carol", fields={"Member": carol.verifier, "Ended": "yes"}, key=authority),
        grant.build("dan", fields={"Member": dan.verifier, "Role": "reader"}, key=authority),
        note.build("4", "only reads", key=dan),
    ]
    found = run(
        blank(page, site),
        """
        const [raws, authority, bob, rules] = given;
        const records = raws.map((raw) => new Uint8Array(raw));
        const local = await IndexedDbLace.open("rooms", { records });
        const room = await local.list(L.room("//g//notes//", { authority }));
        const roles = { writer: ["message"], reader: ["*"] };
        const wide = await local.list(L.room("//g//notes//", { authority, roles, removed: "stays" }));
        const ruled = await local.list(rules);
        const texts = [room, wide, ruled].map((list) => list.map((one) => one.text).filter(Boolean));
        return [...texts, room.find((one) => one.fields.Member === bob).fields];
        """,
        [list(record.raw) for record in records],
        authority.verifier,
        bob.verifier,
        f"SelectHave(N) :- Have(N), Field(N,'Signed-By',_,'{bob.verifier}')."
        f"\nSelectAdvertised(N,S) :- AdvertisedField(N,S,'Signed-By',_,'{bob.verifier}').",
    )
    assert found[0] == ["belongs"]
    assert sorted(found[1]) == ["belongs", "only reads", "removed"]
    assert found[2] == ["belongs"]
    assert found[3] == {"Member": bob.verifier, "Role": "writer"}
