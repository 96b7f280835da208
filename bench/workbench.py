"""The workbench with many records: what a run costs, a step on the page, and the first view.

    .venv/bin/python bench/workbench.py

A real ``lace workbench`` and a real Chromium. Seconds are CPU time: of this process for the run,
beside the same scenario run without being recorded; of the browser's pages for a step and for the
first view, beside the same of the notes room.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from bench_page import chromium, workbench
from playwright.sync_api import Browser

from lace.scenario.build import load_scenario
from lace.scenario.run import run_scenario
from lace.workbench.recording import record_run

RECORDS: Final = 500
STEPS: Final = 60
_FRAMES: Final = "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"


def scenario(records: int) -> str:
    """Return a story in which one side has many notes and the other none."""
    notes = "\n".join(
        f'[record.n{i}]\nat = "//notes-demo//notes/message//n/{i}"\nby = "bob"\n'
        f'tai = "{1699900000 + i}:000000000"\nfields = {{ Title = "T{i}" }}\ndata = "Note {i}"'
        for i in range(records)
    )
    has = ", ".join(f'"n{i}"' for i in range(records))
    rules = 'rules = "//notes-demo//notes//"'
    return f"""format = "lace-scenario/1"
title = "Many"
story = "Many notes."
now = "1700000000:000000000"
[keys]
bob = "bob"
alice = "alice"
{notes}
[peer.bob]
key = "bob"
has = [{has}]
{rules}
[peer.alice]
key = "alice"
{rules}
[[step]]
say = "They meet."
interlace = ["bob", "alice"]
"""


def page_seconds() -> float:
    """Return the CPU seconds of the browser's pages: processes that descend from this one."""
    parents: dict[str, list[tuple[str, int, bool]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
                shows = b"--type=renderer" in (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            found = (entry.name, int(stat[11]) + int(stat[12]), shows)
            parents.setdefault(stat[1], []).append(found)
    total, waiting = 0, [str(os.getpid())]
    while waiting:
        for child, ticks, shows in parents.get(waiting.pop(), ()):
            total += ticks if shows else 0
            waiting.append(child)
    return total / os.sysconf("SC_CLK_TCK")


def on_page(browser: Browser, link: str) -> tuple[float, float]:
    """Return what the first view takes, and then one step, in CPU seconds of the page."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    before = page_seconds()
    page.goto(link)
    page.wait_for_selector(".story h2")
    view = page_seconds() - before
    page.wait_for_selector("html[data-ready=ready]")
    page.wait_for_timeout(1000)
    before = page_seconds()
    for _ in range(STEPS):
        page.keyboard.press("ArrowRight")
        page.evaluate(_FRAMES)
    step = (page_seconds() - before) / STEPS
    page.close()
    return view, step


def main() -> None:
    text = scenario(RECORDS)
    built = load_scenario(text)
    run_scenario(built)
    times = [time.process_time()]
    run_scenario(built)
    times.append(time.process_time())
    record_run(built, text=text)
    times.append(time.process_time())
    floor, run = times[1] - times[0], times[2] - times[1]
    print(f"run of {RECORDS} records: {run:.2f} s (target 1.5), {run / floor:.1f} × unrecorded")
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "many.toml"
        file.write_text(text, encoding="utf-8")
        with workbench() as link:
            least_view, least_step = on_page(browser, link)
        with workbench(str(file)) as link:
            view, step = on_page(browser, link)
    print(f"first view: {least_view:.2f} s (target 1); with {RECORDS} records {view:.2f} s")
    print(
        f"a step with {RECORDS} records: {step * 1000:.0f} ms (target 50), "
        f"{step / least_step:.1f} × one of the notes room"
    )


if __name__ == "__main__":
    main()
