"""The engine itself in a page: built by its script, imported by plain HTML, kept by the browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench_page import static_site
from playwright.sync_api import Page, expect

import lace
from lace.crypto.keys import demo_key
from lace.scenario.library import find_scenario
from lace.workbench.export import export
from lace.workbench.recording import record_run

ROOT = Path(__file__).parent.parent.parent
LOADING = 60_000


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("NOT tested: the browser bundle is made with npm, which is not here")
    folder = tmp_path_factory.mktemp("bundle")
    command = [sys.executable, str(ROOT / "web" / "bundle.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def site(bundle: Path) -> Iterator[str]:
    with static_site(bundle) as url:
        yield url


def run(page: Page, script: str, *given: Any) -> Any:
    """Run a script of a page that imports the bundle."""
    return page.evaluate(
        f"async (given) => {{ const {{ Lace }} = await import('/lace.mjs'); {script} }}",
        list(given),
    )


@pytest.mark.req("000-WB-02", "000-API-02")
def test_a_plain_page_opens_stores_and_lists_and_keeps_its_records(page: Page, site: str) -> None:
    page.goto(f"{site}example.html")
    status = page.locator("[role=status]")
    expect(status).to_contain_text("Ready", timeout=LOADING)
    expect(status).to_contain_text(demo_key("somebody in a browser").verifier)
    page.fill("input", "Written in a page.")
    page.click("button")
    item = page.locator("li")
    expect(item).to_contain_text("Written in a page. (S.")
    shown = item.inner_text()
    page.reload()
    expect(status).to_contain_text("Ready", timeout=LOADING)
    assert item.inner_text() == shown  # still there, the same hash


def test_two_tabs_lose_nothing_and_a_second_secret_is_refused(page: Page, site: str) -> None:
    other = page.context.new_page()
    for one in (page, other):
        one.set_default_timeout(LOADING)
        one.goto(f"{site}LICENSES.txt")
    put = "const made = await Lace.open(given[0]); await made.store([{at: given[1], data: 'x'}]);"
    listed = " return (await made.list('//g//a//')).map((r) => r.at).sort();"
    caught = "try { %s } catch (e) { return [e.name, e.code, e.message, e.hint]; }"
    assert run(page, put + listed, "mine", "//g//a//1") == ["//g//a//1"]
    assert run(other, put + listed, "another", "//g//a//1") == ["//g//a//1"]
    assert run(page, put + listed, "mine", "//g//a//2") == ["//g//a//1", "//g//a//2"]
    refused = run(other, caught % "await Lace.open('mine');")
    assert refused[:3] == [
        "LaceError",
        "store.locked",
        "mine is open in another tab of this browser",
    ]
    run(page, "await (await Lace.open('mine')).close();")
    assert run(other, put + listed, "mine", "//g//a//3") == [f"//g//a//{n}" for n in (1, 2, 3)]
    second = "await Lace.open('mine', { secret: await Lace.demoSecret('me') });"
    refused = run(other, caught % second)
    assert refused[:3] == ["LaceError", "input.key", "mine is open already, with no key"]
    assert "Close it first" in refused[3]
    other.close()  # a closed tab holds nothing, once the browser has noticed
    page.evaluate("navigator.locks.request('lace/mine', () => {})")  # waits for its turn
    page.evaluate("navigator.locks.request('lace/another', () => {})")
    again = "const made = await Lace.open(given[0], { secret: await Lace.demoSecret('me') });"
    assert run(page, again + listed, "mine") == [f"//g//a//{n}" for n in (1, 2, 3)]
    assert run(page, again + listed, "another") == ["//g//a//1"]


@pytest.mark.req("000-WB-02", "000-API-13")
def test_it_is_the_same_engine(page: Page, site: str) -> None:
    """Same bytes, same answers, same codes; two laces of a page converge as anywhere."""
    page.goto(f"{site}LICENSES.txt")
    page.set_default_timeout(LOADING)
    key = demo_key("bob")
    ours = lace.seal(
        lace.build_plex(group="g", app="a", name="n", tai="1700000000:000000000", data=b"hi"), key
    )
    answers = run(
        page,
        """
        const [raw, broken] = given;
        const secret = await Lace.demoSecret("bob");
        const one = await Lace.open("one", { secret });
        const two = await Lace.open("two");
        const stored = await one.store([
          { at: "//g//a//n", tai: "1700000000:000000000", data: "hi" },
          { at: "//g//b//n", tai: "1700000000:000000000", data: "elsewhere" },
        ]);
        const again = await one.store([{ at: "//h//a//n", data: "x", fields: { Title: "T" } }]);
        const synced = await one.sync(two, "//g//a//");
        let refused = null;
        try { await one.list("//nonsense"); } catch (error) { refused = error.code; }
        return {
          verifier: one.verifier, stored, again, synced, refused,
          valid: await Lace.validate(new Uint8Array(raw)), broken: await Lace.validate(new Uint8Array(broken)),
          one: await one.list("//g//a//"), two: await two.list("//g//a//"), none: await two.list("//g//b//"),
        };
        """,
        list(ours.raw),
        list(ours.raw[:-1] + b"!"),
    )
    assert answers["verifier"] == key.verifier
    assert [one["status"] for one in answers["stored"]] == ["accepted", "accepted"]
    (record,) = answers["one"]
    assert record["fields"]["Signed-By"] == key.verifier
    assert answers["two"] == answers["one"]
    assert answers["none"] == []
    assert answers["valid"]["status"] == "accepted"
    assert answers["broken"]["code"] == "record.hash-mismatch"
    assert answers["refused"] == "policy.selector"
    plex = lace.build_plex(group="g", app="a", name="n", tai="1700000000:000000000", data=b"hi")
    assert record["at"] == str(plex.coordinate)


def test_signatures_hold_on_both_sides(page: Page, site: str) -> None:
    """What the page signs is valid here, byte by byte, and the other way round."""
    page.goto(f"{site}LICENSES.txt")
    page.set_default_timeout(LOADING)
    raws = page.evaluate(
        """async () => {
          const { load } = await import('/lace.mjs');
          const { python } = await load();
          return python.runPython(`
import json, lace
from lace.crypto.keys import demo_key
made = []
for i in range(8):
    plex = lace.build_plex(group="g", app="a", name=f"{i}", tai="1700000000:000000000", data=bytes([i]) * i)
    made.append(lace.seal(plex, demo_key(f"signer {i}"), aux=bytes([i + 1]) * 32).raw.hex())
json.dumps(made)
`);
        }"""
    )
    for number, text in enumerate(json.loads(raws)):
        plex = lace.build_plex(
            group="g",
            app="a",
            name=f"{number}",
            tai="1700000000:000000000",
            data=bytes([number]) * number,
        )
        assert (
            bytes.fromhex(text)
            == lace.seal(plex, demo_key(f"signer {number}"), aux=bytes([number + 1]) * 32).raw
        )


@pytest.mark.req("000-WB-02", "000-WB-09")
def test_an_exported_workbench_with_the_engine_in_it_changes_things(
    page: Page, bundle: Path, tmp_path: Path
) -> None:
    export(tmp_path / "site", ["notes-room", "cache-fill"], engine=bundle)
    with static_site(tmp_path / "site") as url:
        page.goto(url)
        page.locator("#to-end").click()  # the recording is there at once
        expect(page.locator("#outcome")).to_have_text("✓ fixed point")
        page.wait_for_selector("html[data-ready=ready]", timeout=LOADING)
        page.locator("#lace-0-rules").click()
        text = dict(find_scenario("notes-room").scenario.rules)["room"]
        page.locator("#editor-0 .cm-content").click()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(text[: text.index('#:json {"label": "Notes by members')])
        expect(page.locator("#judged-0")).to_contain_text("✓ 3 rules", timeout=LOADING)
        page.locator("#apply-0").click()
        expect(page.locator(".side-1 tbody")).not_to_contain_text("bob-note", timeout=LOADING)
        page.select_option("#scenario", "cache-fill")
        expect(page.locator(".story h2")).to_have_text("Cache fill", timeout=LOADING)
        plan = record_run(find_scenario("cache-fill"))["scenes"][0]["plan"]["id"]
        page.locator("#tab-plan").click()
        expect(page.locator(".plan h3")).to_contain_text(plan)  # the same plan as here
        page.goto("about:blank")  # before its server ends
