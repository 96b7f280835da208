"""Real laces and journals on the page: the same timeline, tables and reasons."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench_page import workbench
from command import lace
from playwright.sync_api import Page, expect
from servers import process


def run(*arguments: str) -> None:
    done = lace(*arguments)
    assert done.returncode == 0, done.stderr


def popen(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "lace", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def laces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring"))
    for who in ("alice", "bob"):
        run("keyring", "new", who)
        run("init", who, "--key", who, "--select", "//notes-demo//notes//")
        run("add", f"//notes-demo//notes/message//of-{who}", "--text", "Hi", "--lace", who)
    run("add", "//other//notes/message//secret", "--text", "Hi", "--lace", "bob")
    return tmp_path


def test_two_laces_are_shown_as_if_they_met_and_other_rules_can_be_tried(
    page: Page, laces: Path
) -> None:
    with workbench(str(laces / "alice"), str(laces / "bob")) as link:
        page.goto(link)
        page.wait_for_selector("html[data-ready=ready]")
        expect(page.locator(".story h2")).to_have_text("alice and bob")
        page.locator("#to-end").click()
        expect(page.locator("#outcome")).to_have_text("✓ fixed point")
        for side in (0, 1):
            for name in ("of-alice", "of-bob"):
                expect(page.locator(f".side-{side} th button", has_text=name)).to_be_visible()
        page.locator(".side-1 th button", has_text="secret").click()
        expect(page.locator(".why h3").first).to_have_text("Why secret?")
        page.locator("#tab-scenario").click()
        expect(page.locator(".panel.scenario")).to_contain_text("This is real, and no scenario")
        expect(page.locator("#show-link")).to_be_disabled()
        page.locator("#lace-1-rules").click()
        page.locator("#editor-1 .cm-content").click()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text("//other//notes//")
        page.keyboard.press("Control+Enter")
        page.locator("#tab-compare").click()
        expect(page.locator("#compared")).to_contain_text("2 records no longer")


def test_a_journal_is_shown_message_by_message(page: Page, laces: Path) -> None:
    run("sync", "bob", "--lace", "alice", "--journal", "met.jsonl")
    with workbench(str(laces / "met.jsonl"), str(laces / "alice")) as link:
        page.goto(link)
        page.wait_for_selector("html[data-ready=ready]")
        expect(page.locator(".story h2")).to_have_text("met")
        page.locator("#to-end").click()
        expect(page.locator("#outcome")).to_have_text("✓ fixed point")
        page.locator("section.lace th button", has_text="of-bob").first.click()
        expect(page.locator(".why h3").first).to_have_text("Why of-bob?")
        expect(page.locator("#diagram .arrow.bad")).to_have_count(0)  # nothing seems lost
        page.locator("#tab-scenario").click()
        with page.expect_download() as saved:
            page.locator("#save-page").click()
        assert re.fullmatch(r"journal\.html", saved.value.suggested_filename)


@contextmanager
def waiting(page: Page, laces: Path) -> Iterator[str]:
    """Open the page on a server that has had no exchange yet; give the server's address."""
    token = str(laces / "token")
    served = (laces, laces / "bob", "tcp:127.0.0.1:0", "--accept", "anyone", "--watch-token", token)
    with process(*served, "--watch", "0") as server:
        address = server.wait_for("watch")[0]["address"]
        with workbench("--watch", address, "--watch-token", token) as link:
            page.goto(link)
            page.wait_for_selector("html[data-ready=ready]")
            expect(page.locator("#notice")).to_contain_text("has had no exchange yet")
            yield server.addresses[0]


def test_the_first_exchange_of_a_server_is_shown_when_it_comes(page: Page, laces: Path) -> None:
    with waiting(page, laces) as address:
        run("sync", address, "--lace", "alice")
        expect(page.locator(".story h2")).to_have_text("Exchange 1")
        expect(page.locator("#notice")).to_be_empty()


def test_who_comes_and_says_nothing_does_not_keep_the_first_exchange_from_being_shown(
    page: Page, laces: Path
) -> None:
    with waiting(page, laces) as address:
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        with socket.create_connection((host, int(port))):
            silent = page.locator("#scenario option", has_text="Exchange 1 with 127.0.0.1")
            silent.wait_for(state="attached")
            expect(page.locator("#notice")).to_contain_text("has had no exchange yet")
            run("sync", address, "--lace", "alice")
            expect(page.locator(".story h2")).to_have_text("Exchange 2")
            expect(page.locator("#notice")).to_be_empty()


def test_exchanges_of_a_server_are_shown_while_they_happen(page: Page, laces: Path) -> None:
    token = str(laces / "token")
    served = (laces, laces / "bob", "tcp:127.0.0.1:0", "--accept", "anyone", "--watch-token", token)
    with process(*served, "--watch", "0") as server:
        run("sync", server.addresses[0], "--lace", "alice")
        address = server.wait_for("watch")[0]["address"]
        with workbench("--watch", address, "--watch-token", token) as link:
            page.goto(link)
            page.wait_for_selector("html[data-ready=ready]")
            expect(page.locator(".story h2")).to_have_text("Exchange 1")
            page.locator("#to-end").click()
            expect(page.locator("#outcome")).to_have_text("✓ fixed point")
            # The next one is shown while it goes on, and whoever is at its end stays there.
            follows = popen("follow", server.addresses[0], "--lace", "alice")
            page.locator("#scenario option", has_text="Exchange 2 with 127.0.0.1").wait_for(
                state="attached"
            )
            page.select_option("#scenario", "exchange-2")
            expect(page.locator(".story h2")).to_have_text("Exchange 2")
            page.locator("#to-end").click()
            place = "//notes-demo//notes/message//later"
            run("add", place, "--text", "Hi", "--lace", "alice")
            expect(page.locator(".side-0 th button", has_text="later")).to_be_visible()
            follows.terminate()
            follows.wait()
            expect(page.locator("#scenario option", has_text="ended")).to_have_count(2)
            server.stop()
            expect(page.locator("#notice")).to_contain_text("does not answer any more")
            expect(page.locator(".story h2")).to_have_text("Exchange 2")
            with process(*served, "--watch", address.rpartition(":")[2]) as again:
                expect(page.locator("#notice")).to_contain_text("was started again")
                run("sync", again.addresses[0], "--lace", "alice")
                only = page.locator("#scenario option", has_text="Exchange 1 with")
                expect(only).to_have_count(1)
                expect(page.locator("#scenario option", has_text="Exchange 2 with")).to_have_count(
                    0
                )
                expect(page.locator(".story h2")).to_have_text("Exchange 2")  # from before
                page.select_option("#scenario", "exchange-1")
                expect(page.locator(".story h2")).to_have_text("Exchange 1")
