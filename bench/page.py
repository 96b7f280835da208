"""Lace in a page: what it costs to load it, to be ready, and to meet a server for the first time.

    .venv/bin/python bench/page.py             # makes the bundle, which needs npm
    .venv/bin/python bench/page.py FOLDER      # measures a bundle that is there already

A page of a real Chromium opens a lace and interlaces with a real ``lace serve`` over ws. Seconds
are CPU time of all processes of the browser; the floor is the same browser loading Pyodide alone.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from bench_page import chromium, static_site
from playwright.sync_api import Browser, Page
from servers import process

import lace
from lace import blocking

ROOT: Final = Path(__file__).parent.parent
RUNS: Final = 3
RECORDS: Final = 500
ROOM: Final = "//notes-demo//notes//"
WAIT: Final = 120_000
FLOOR: Final = """<!doctype html><link rel="icon" href="data:,"><script type="module">
  const { loadPyodide } = await import("./pyodide.mjs");
  await loadPyodide({ indexURL: new URL(".", import.meta.url).href, stdLibURL: "engine.zip" });
  document.title = "ready";
</script>"""
READY: Final = """<!doctype html><link rel="icon" href="data:,"><script type="module">
  import { IndexedDbLace } from "./lace.mjs";
  globalThis.local = await IndexedDbLace.open("bench");
  await local.list("//g//a//");
  document.title = "ready";
</script>"""


def browser_seconds() -> float:
    """Return the CPU seconds of every process that descends from this one, and lives."""
    parents: dict[int, list[tuple[int, int]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            ticks = int(stat[11]) + int(stat[12])
            parents.setdefault(int(stat[1]), []).append((int(entry.name), ticks))
    total, waiting = 0, [os.getpid()]
    while waiting:
        for child, ticks in parents.get(waiting.pop(), ()):
            total += ticks
            waiting.append(child)
    return total / os.sysconf("SC_CLK_TCK")


@contextmanager
def bundle_in(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, str(ROOT / "web" / "bundle.py"), made]
        subprocess.run(command, check=True)  # noqa: S603 (our own script)
        yield Path(made)


def measured(browser: Browser, url: str) -> tuple[Page, float]:
    """Load a page in a context that has nothing cached; return it, and what it took."""
    page = browser.new_context().new_page()
    page.set_default_timeout(WAIT)
    page.goto("about:blank")
    page.wait_for_timeout(500)
    before = browser_seconds()
    page.goto(url)
    page.wait_for_function("document.title === 'ready'")
    return page, browser_seconds() - before


def main() -> None:
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with bundle_in(given) as bundle, tempfile.TemporaryDirectory() as work:
        text = (bundle / "offline.js").read_text(encoding="utf-8")
        (line,) = (one for one in text.splitlines() if one.startswith("const FILES = "))
        files = json.loads(line.removeprefix("const FILES = ").removesuffix(";"))
        size = sum(len(gzip.compress((bundle / name).read_bytes(), 9)) for name in files)
        print(f"what a page loads: {size / 1e6:.2f} MB compressed (target 4.95)")
        for name, html in (("floor.html", FLOOR), ("ready.html", READY)):
            (bundle / name).write_text(html, encoding="utf-8")
        note = lace.RecordKind(group="notes-demo", app="notes/message")
        key = lace.SigningKey.generate()
        with lace.open(Path(work) / "notes.lace") as notes:
            made = [
                note.build(f"{number}", f"Note {number}.", key=key) for number in range(RECORDS)
            ]
            blocking.store(notes, made)
        with static_site(bundle) as site, chromium() as browser:
            serving = ("ws:127.0.0.1:0", "--select", ROOM, "--allow-origin", site.rstrip("/"))
            with process(Path(work), "notes.lace", *serving) as server:
                address = server.addresses[0].replace(":", "://", 1)
                for _ in range(RUNS):
                    page, floor = measured(browser, f"{site}floor.html")
                    page.context.close()
                    page, ready = measured(browser, f"{site}ready.html")
                    before = browser_seconds()
                    done = page.evaluate(
                        "([a, room]) => local.sync(a, room).then((r) => r.received.length)",
                        [address, ROOM],
                    )
                    sync = browser_seconds() - before
                    assert done == RECORDS
                    print(
                        f"ready: {ready:.2f} s (target 2.0; Pyodide alone {floor:.2f} s)   "
                        f"first sync of {done} records over ws: {sync:.2f} s"
                    )
                    page.context.close()


if __name__ == "__main__":
    main()
