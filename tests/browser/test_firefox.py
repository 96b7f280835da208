"""The workbench and a page's own lace in Firefox: another engine than that of all other tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_page import static_site, workbench
from firefox import firefox

pytestmark = pytest.mark.long

TABS = ("why", "message", "record", "plan", "disclosure", "watches", "what-if", "compare", "graph",
        "problems", "scenario")  # fmt: skip


def test_the_workbench_steps_and_runs_again(tmp_path: Path) -> None:
    with firefox(tmp_path) as page, workbench() as link:
        page.goto(link)
        page.until("document.documentElement.dataset.ready === 'ready'")
        assert page.run("document.querySelector('.story h2').textContent") == "Notes room"
        page.run("document.querySelector('#to-end').click()")
        page.until("document.querySelector('#outcome')?.textContent === '✓ fixed point'")
        for tab in TABS:
            page.run(f"document.querySelector('#tab-{tab}').click()")
            page.until(f"document.querySelector('#tab-{tab}').ariaSelected === 'true'")
        page.run("document.querySelector('#tab-what-if').click()")
        page.until("document.querySelector('#other-seed') !== null")
        page.run("document.querySelector('#other-seed').click()")
        page.until("document.querySelector('.changes')?.textContent.includes('seed 1')")
        page.run("document.querySelector('#lace-0-rules').click()")
        shown = "document.querySelector('#editor-0')?.shadowRoot?.querySelector('.cm-content')"
        page.until(f"{shown}?.textContent.includes('Member')")
        assert page.complaints == []


def test_a_page_keeps_a_lace(tmp_path: Path, bundle: Path) -> None:
    with firefox(tmp_path) as page, static_site(bundle) as site:
        (bundle / "plain.html").write_text("<!doctype html><title>A page</title>")
        page.goto(f"{site}plain.html")
        stored = page.run("""(async () => {
          const { IndexedDbLace, Lace, list } = await import("./lace.mjs");
          const secret = await Lace.demo_secret("me");
          const mine = await IndexedDbLace.open("fox", { secret });
          await mine.store([{ place: "//notes-demo//notes/message//hello", data: "Hello" }]);
          return (await list(mine, "//notes-demo//notes//")).map((record) => record.text);
        })()""")
        assert stored == ["Hello"]
        page.goto(f"{site}plain.html")  # again, with another engine
        kept = page.run("""(async () => {
          const { IndexedDbLace, Lace, list } = await import("./lace.mjs");
          const mine = await IndexedDbLace.open("fox", { secret: await Lace.demo_secret("me") });
          return (await list(mine, "//notes-demo//notes//")).length;
        })()""")
        assert kept == 1
