"""One workbench and one browser for each file; a page of its own for each test, free of errors.

Not for the whole session: while Playwright is there, nothing else can run an event loop.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_page import chromium, static_site, workbench
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from lace.scenario.library import library
from lace.workbench.export import export

expect.set_options(timeout=30_000)  # no test depends on how fast the machine is


ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine for pages, made by its script."""
    if shutil.which("npm") is None:
        pytest.skip("NOT tested: the browser bundle is made with npm, which is not here")
    folder = tmp_path_factory.mktemp("bundle")
    command = [sys.executable, str(ROOT / "web" / "bundle.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def link() -> Iterator[str]:
    with workbench() as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def exported_to(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site") / "out"
    export(directory, list(library()))
    return directory


@pytest.fixture(scope="module")
def exported(exported_to: Path) -> Iterator[str]:
    with static_site(exported_to) as url:
        yield url


@pytest.fixture
def faults() -> list[str]:
    """What the page complained about; empty at the end of a good test."""
    return []


def _note(message: ConsoleMessage, faults: list[str]) -> None:
    """Keep an error; a browser's own question after an icon is none of the page's."""
    if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
        faults.append(f"{message.text} {message.location['url']}")


@pytest.fixture
def page(browser: Browser, faults: list[str]) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": 1440, "height": 1000},
        permissions=["clipboard-read", "clipboard-write"],
    )
    made = context.new_page()
    made.set_default_timeout(20_000)
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on("console", lambda message: _note(message, faults))
    yield made
    context.close()
    assert faults == []
