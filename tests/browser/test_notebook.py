"""The page of the notebook example: two browsers, each with a key of its own, see each other's notes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect

import notebook

LOADING = 90_000


@pytest.fixture
def url(bundle: Path, tmp_path: Path) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = notebook.make_app(tmp_path / "book", word="swordfish", bundle=bundle, origin=origin)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield origin
        server.should_exit = True
        thread.join()


def join(page: Page, url: str, name: str) -> None:
    page.goto(url)
    expect(page.locator("#join")).to_be_visible(timeout=LOADING)
    page.fill("#join [name=name]", name)
    page.fill("#join [name=word]", "swordfish")
    page.click("#join button")
    expect(page.locator("[role=status]")).to_contain_text(f"You write as {name}", timeout=LOADING)


@pytest.mark.long
def test_what_one_writes_the_other_sees_and_changes(browser: Browser, url: str) -> None:
    with browser.new_context() as first, browser.new_context() as second:
        ann, bob = first.new_page(), second.new_page()
        join(ann, url, "Ann")
        ann.fill("#write [name=title]", "Plans")
        ann.fill("#write [name=text]", "Go to Oslo.")
        ann.click("#write button")
        join(bob, url, "Bob")
        expect(bob.locator("li")).to_have_text("Plans: Go to Oslo. (Ann)", timeout=LOADING)
        bob.click("li")
        bob.fill("#write [name=text]", "Go to Bergen.")
        bob.click("#write button")
        for page in (ann, bob):
            expect(page.locator("li")).to_have_text("Plans: Go to Bergen. (Bob)", timeout=LOADING)
        ann.reload()  # the browser has kept the key and the notes
        expect(ann.locator("[role=status]")).to_contain_text("You write as Ann", timeout=LOADING)
        expect(ann.locator("li")).to_have_text("Plans: Go to Bergen. (Bob)", timeout=LOADING)
