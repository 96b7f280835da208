"""What is passed on opens elsewhere: links that carry a run, one page, an element in any page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench_page import static_site, workbench
from playwright.sync_api import Page, expect


def ready(page: Page, how: str = "recorded") -> None:
    page.wait_for_selector(f"html[data-ready={how}]")


def shared(page: Page, button: str) -> str:
    page.locator("#tab-scenario").click()
    page.locator(button).click()
    box = page.locator("#shared")
    expect(box).not_to_have_value("")
    return box.input_value()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported page with one scenario only."""
    from lace.workbench.export import export

    directory = tmp_path_factory.mktemp("elsewhere") / "site"
    export(directory, ["notes-room"])
    return directory


def test_a_link_with_its_run_opens_where_nobody_knows_the_scenario(
    page: Page, elsewhere: Path
) -> None:
    with static_site(elsewhere) as site:
        with workbench("cache-fill", "--links-to", site) as link:
            page.goto(f"{link}&scene=2&step=7")
            ready(page, "ready")
            found = shared(page, "#show-run")
        assert found.startswith(f"{site}#r=")
        page.goto("about:blank")
        page.goto(found)
        ready(page)
        expect(page.locator("#where")).to_have_text(re.compile("^7 / "))
        title = page.locator(".story h2").inner_text()
        assert "ache" in title
        page.keyboard.press("Escape")
        page.locator("#step-back").click()
        page.reload()  # the address still carries it
        ready(page)
        expect(page.locator("#where")).to_have_text(re.compile("^6 / "))
        expect(page.locator(".story h2")).to_have_text(title)


@pytest.mark.parametrize("spoil", ["AAAA", "%25%25", "q1ZKy89PUrJSSkosUqoFAA"])
def test_a_link_whose_run_is_no_run_says_so(page: Page, elsewhere: Path, spoil: str) -> None:
    with static_site(elsewhere) as site:
        page.goto(f"{site}#r={spoil}")
        ready(page)
        expect(page.locator("#notice")).to_contain_text("The link is damaged")
        expect(page.locator("#where")).to_have_text(re.compile("^0 / "))


def test_a_run_that_was_tampered_with_is_refused(page: Page, elsewhere: Path) -> None:
    """Whatever is not whole is not shown: a page that breaks off in the middle helps nobody."""
    with static_site(elsewhere) as site:
        page.goto(site)
        ready(page)
        found = page.evaluate("""async () => {
          const { isRecording } = await import(`${location.origin}/sound.js`);
          const made = await (await fetch("recordings/notes-room.json")).json();
          const spoil = (change) => { const copy = structuredClone(made); change(copy); return isRecording(copy); };
          return [
            isRecording(made), spoil((r) => { r.scenes[0].frames[3].tables = [0, 999]; }),
            spoil((r) => { r.scenes = []; }), spoil((r) => { r.scenes[0].pair = ["bob", "nobody"]; }),
            spoil((r) => { delete r.scenes[0].frames; }), spoil((r) => { r.format = "other"; }),
            spoil((r) => { r.scenario.title = { toString: 1 }; }), spoil((r) => { r.more = 1; }),
            isRecording(null), isRecording([]),
          ];
        }""")
        assert found == [True, *[False] * 9]


def test_a_run_is_saved_as_a_page_that_opens_by_itself(
    page: Page, link: str, tmp_path: Path
) -> None:
    page.goto(f"{link}&s=revocation&scene=0&step=3&tab=scenario")
    ready(page, "ready")
    with page.expect_download() as saved:
        page.locator("#save-page").click()
    file = tmp_path / saved.value.suggested_filename
    saved.value.save_as(file)
    assert file.name == "revocation.html"
    page.goto(file.as_uri())
    ready(page)
    expect(page.locator("#scenario option")).to_have_count(1)
    expect(page.locator(".what")).to_be_visible()
    expect(page.locator("#tour")).to_have_count(0)  # its story is not in this file
    page.locator("#step-on").click()
    expect(page.locator("#where")).to_have_text(re.compile("^1 / "))


def test_the_element_shows_a_story_in_any_page(page: Page, elsewhere: Path, tmp_path: Path) -> None:
    with static_site(elsewhere) as site, static_site(tmp_path) as host:
        (tmp_path / "index.html").write_text(
            f"""<!doctype html><title>A blog</title>
            <meta http-equiv="Content-Security-Policy"
              content="default-src 'none'; script-src {site}; frame-src {site}">
            <script src="{site}lace-scenario.js"></script>
            <p>Before</p>
            <lace-scenario name="notes-room" scene="2" step="3"><img alt="fallback"></lace-scenario>
            <lace-scenario page="javascript:alert(1)"></lace-scenario>
            """
        )
        page.goto(host)
        frame = page.frame_locator("lace-scenario >> iframe >> nth=0")
        expect(frame.locator("#where")).to_have_text(re.compile("^3 / "))
        expect(frame.locator("#scenario")).to_be_hidden()
        frame.locator("#step-on").click()
        expect(frame.locator("#where")).to_have_text(re.compile("^4 / "))
        assert page.url == host  # and Back still leads away from the page
        assert page.evaluate("history.length") <= 3
        expect(frame.locator("#whole")).to_have_attribute("href", re.compile(r"scene=1&step=4"))
        page.evaluate("document.querySelector('lace-scenario').setAttribute('step', '5')")
        expect(frame.locator("#where")).to_have_text(re.compile("^5 / "))
        second = page.locator("lace-scenario").nth(1)
        assert second.evaluate("e => e.shadowRoot.firstChild.src") == "about:blank"
