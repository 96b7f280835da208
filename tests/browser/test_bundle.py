"""The engine itself in a page: built by its script, imported by plain HTML, kept by the browser."""

from __future__ import annotations

import gzip
import json
import subprocess
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

LOADING = 60_000


@pytest.fixture(scope="module")
def site(bundle: Path) -> Iterator[str]:
    with static_site(bundle) as url:
        yield url


def run(page: Page, script: str, *given: Any) -> Any:
    """Run a script of a page that imports the bundle."""
    names = "{ IndexedDbLace, Lace, list, store, sync, selector }"
    return page.evaluate(
        f"async (given) => {{ const {names} = await import('/lace.mjs'); {script} }}",
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
        const plain = ({ hash, place, fields, author, text, bytes, date }) => (
          { hash, place, fields, author, text, bytes: [...bytes], date: date.toISOString() });
        const secret = await Lace.demo_secret("bob");
        const one = await Lace.open("one", { secret });
        const two = await Lace.open("two");
        const stored = await one.store([
          { place: "//g//a//n", tai: "1700000000:000000000", data: "hi" },
          { place: "//g//b//n", tai: "1700000000:000000000", data: "elsewhere" },
        ]);
        const again = await one.store([{ place: "//h//a//n", data: "x", fields: { Title: "T" } }]);
        const synced = await one.sync(two, "//g//a//");
        let refused = null;
        try { await one.list("//nonsense"); } catch (error) { refused = error.code; }
        return {
          verifier: one.verifier, stored, again, synced, refused,
          valid: await Lace.validate(new Uint8Array(raw)), broken: await Lace.validate(new Uint8Array(broken)),
          one: (await one.list("//g//a//")).map(plain), two: (await two.list(selector("//g//a//"))).map(plain),
          none: await two.list("//g//b//"),
        };
        """,
        list(ours.raw),
        list(ours.raw[:-1] + b"!"),
    )
    assert answers["verifier"] == key.verifier
    assert [one["status"] for one in answers["stored"]] == ["accepted", "accepted"]
    (record,) = answers["one"]
    assert record["author"] == key.verifier
    assert record["text"] == "hi"
    assert record["date"] == "2023-11-14T22:12:43.000Z"
    assert lace.validate_record(bytes(record["bytes"])).unwrap().hash == record["hash"]
    assert answers["two"] == answers["one"]
    assert answers["none"] == []
    assert answers["valid"]["status"] == "accepted"
    assert answers["broken"]["code"] == "record.hash-mismatch"
    assert answers["refused"] == "policy.selector"
    plex = lace.build_plex(group="g", app="a", name="n", tai="1700000000:000000000", data=b"hi")
    assert record["place"] == str(plex.coordinate)


def test_signatures_hold_on_both_sides(page: Page, site: str) -> None:
    """What the page signs is valid here, byte by byte, and the other way round."""
    page.goto(f"{site}LICENSES.txt")
    page.set_default_timeout(LOADING)
    raws = page.evaluate(
        """async () => {
          const { load } = await import('/engine.mjs');
          const python = await load(new URL('/', location).href);
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


def test_what_a_page_loads_is_small(bundle: Path) -> None:
    """The files that a page loads, compressed as web servers do, are at most 4.95 MB."""
    text = (bundle / "offline.js").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("const FILES = "))
    files = json.loads(line.removeprefix("const FILES = ").removesuffix(";"))
    size = sum(len(gzip.compress((bundle / name).read_bytes(), 9)) for name in files)
    assert size <= 4_950_000


STARTING = """
const { load } = await import(`${process.argv[1]}engine.mjs`);
const python = await load(process.argv[1], { modules: { lace_page: {} } });
console.log(python.runPython(`
import dataclasses, json, lace_made, sys

texts = []

def run(text, names, made):
    texts.append(lace_made.key(text) in lace_made._codes)
    lace_made.run(text, names, made)

dataclasses.exec = run
import lace_browser, lace.api.interlaces
known = list(texts)

@dataclasses.dataclass
class Fresh:
    name: str

assert Fresh("a") == Fresh("a") and not texts[-1]
loaders = [type(getattr(module, "__loader__", None)).__name__ for module in sys.modules.values()]
json.dumps([all(known), len(known), loaders.count("Archive"), loaders.count("zipimporter")])
`));
"""


def test_the_engine_starts_with_what_was_compiled_before(bundle: Path) -> None:
    """Methods of dataclasses are compiled in the bundle, and its modules are read once."""
    node = ["node", "--input-type=module", "--eval", STARTING, f"{bundle}/"]
    done = subprocess.run(node, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    all_known, dataclasses, ours, others = json.loads(done.stdout)
    assert all_known
    assert dataclasses > 100
    assert ours > 150
    assert others < 10  # what Python needs before it can be told otherwise


@pytest.mark.long
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
        # A link of one's own shows its text at once, and is run when the engine is there.
        page.locator("#tab-what-if").click()
        page.locator("#other-seed").click()
        expect(page.locator(".changes")).to_contain_text("seed 1", timeout=LOADING)
        page.wait_for_function("location.hash.includes('z=')")  # it is packed after it is shown
        shared = page.url
        page.goto("about:blank")
        page.goto(shared)
        expect(page.locator("#notice")).to_contain_text("The engine is starting")
        expect(page.locator("#toml")).to_be_visible()
        page.wait_for_selector("html[data-ready=ready]", timeout=LOADING)
        expect(page.locator(".story h2")).to_have_text("Cache fill")
        expect(page.locator("#notice")).to_be_empty()
        page.goto("about:blank")  # before its server ends
