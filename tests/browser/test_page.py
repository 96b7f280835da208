"""The workbench in a real Chromium: what people do with it, done."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from bench_page import workbench
from command import lace
from playwright.sync_api import Browser, Dialog, Page, WebSocketRoute, expect

from lace.crypto.keys import demo_key
from lace.scenario.library import find_scenario, library
from lace.scenario.run import run_scenario
from lace.scenario.write import write_scenario
from lace.workbench.recording import record_run

NAMES = tuple(library())
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
TABS = (
    "why",
    "message",
    "record",
    "plan",
    "disclosure",
    "watches",
    "what-if",
    "compare",
    "graph",
    "problems",
    "scenario",
)


def open_page(page: Page, link: str, fragment: str = "") -> None:
    """Open the workbench where a link says, or at the end of its first exchange, all steps shown."""
    if page.url.startswith(link.split("#", maxsplit=1)[0]):
        page.goto("about:blank")  # else it is the same page, which only follows its address
    page.goto(link + fragment.replace("#", "&"))
    page.wait_for_selector("html[data-ready=ready]")
    if page.locator("#show-ends").count():  # what cannot be run has no timeline
        page.locator("#show-ends").check()
    if "step=" not in fragment and page.locator("#to-end").is_enabled():
        page.locator("#to-end").click()


def find_scenario_text(name: str) -> str:
    return library()[name].read_text(encoding="utf-8")


def step_of(page: Page) -> tuple[int, int]:
    at, _, end = page.locator("#where").inner_text().partition(" / ")
    return int(at), int(end)


def is_at(page: Page, step: int) -> None:
    """Wait until the page is at a step."""
    expect(page.locator("#where")).to_have_text(re.compile(f"^{step} / "))


def put(page: Page, editor: str, text: str) -> None:
    """Replace the text of an editor as somebody who types would."""
    content = page.locator(f"#{editor} .cm-content")
    content.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def typed(page: Page, editor: str = "toml") -> str:
    """Return the whole text of an editor, also what is out of sight."""
    expect(page.locator(f"#{editor} .cm-content")).to_be_visible()
    found: str = page.evaluate(
        "(id) => document.getElementById(id).shadowRoot.querySelector('.cm-content')"
        ".cmTile.view.state.doc.toString()",
        editor,
    )
    return found


def copy(page: Page, what: str) -> None:
    """Have something to pass on shown, then copied: nothing is copied unseen."""
    page.locator(f"#show-{what}").click()
    expect(page.locator("#shared")).to_be_visible()
    page.locator("#copy-shared").click()


@pytest.mark.req("000-WB-01", "000-WB-03", "000-WB-04", "000-WB-07", "000-WB-08")
@pytest.mark.parametrize("name", NAMES)
def test_each_scenario_opens_and_steps_to_the_fixed_point_and_back(
    page: Page, link: str, name: str
) -> None:
    open_page(page, link, f"#s={name}")
    built = find_scenario(name)
    expect(page.locator(".story h2")).to_have_text(built.scenario.title)
    done = run_scenario(built)
    for number, step in enumerate(built.scenario.steps):
        page.keyboard.press(str(number + 1))
        if step.interlace is None:
            expect(page.locator(".timeline")).to_contain_text("Nobody meets in this scene.")
            continue
        meeting = done.steps[number].meeting
        assert meeting is not None
        page.keyboard.press("Home")
        is_at(page, 0)
        page.keyboard.press("End")
        end = len(meeting.deliveries)  # the same steps as a run of the library
        expect(page.locator("#where")).to_have_text(f"{end} / {end}")
        expect(page.locator("#outcome")).to_have_text("✓ fixed point")
        for side, peer in enumerate(step.interlace):
            held = {built.id_of(hash) for hash in done.steps[number].held[peer]}
            shown = page.locator(f".side-{side} tr.record:has(.s-have) th")
            assert set(shown.all_inner_texts()) == held
        page.keyboard.press("ArrowLeft")
        is_at(page, end - 1)
        page.keyboard.press("Shift+ArrowLeft")
        expect(page.locator("#where")).not_to_have_text(f"{end - 1} / {end}")
    page.locator("#lace-0-rules").click()
    expect(page.locator("#editor-0 .cm-content")).to_be_visible()


@pytest.mark.req("000-WB-03")
def test_versions_stand_together_and_the_newest_is_marked_as_a_candidate(
    page: Page, link: str
) -> None:
    frames = record_run(find_scenario("cache-fill"))["scenes"][2]["frames"]
    arrival = next(n for n, frame in enumerate(frames) if "stored" in frame["sentence"])
    open_page(page, link, f"#s=cache-fill&scene=2&step={arrival - 1}")
    heading = page.locator(".side-0 tbody.versions th[scope=rowgroup]")
    expect(heading).to_have_text("//shop//catalog/item//pears 2 versions")
    expect(page.locator(".side-0 tbody.versions tr.record th")).to_have_text(
        ["pears-cheaper", "pears"]
    )
    newest = page.locator(".side-0 tr.record", has_text="newest here")
    expect(newest.locator("th")).to_have_text("pears-cheaper")
    expect(newest.locator(".newest")).to_have_text("▲ newest here, a candidate")
    expect(page.locator(".side-0 .footnote")).to_contain_text("A candidate, not a truth")
    here = page.locator(".side-1 tr.record", has_text="newest here")
    expect(here).to_have_count(0)  # one version each: the table is flat
    expect(page.locator(".side-1 tbody")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(here.locator("th")).to_have_text("pears-cheaper")
    expect(page.locator("#sentence")).to_contain_text("is now the newest that Cache has at //shop")
    page.keyboard.press("ArrowLeft")
    expect(here).to_have_count(0)
    page.keyboard.press("End")
    expect(here.locator("th")).to_have_text("pears-cheaper")
    page.fill("#filter", "pears-cheaper")
    expect(page.locator(".side-1 tr.record")).to_have_count(1)
    expect(page.locator(".side-1 .coordinate")).to_contain_text("2 versions")
    page.fill("#filter", "")
    page.locator(".side-0 .tools input").check()
    expect(newest).to_have_count(0)
    seen = page.locator(".side-0 tr.record", has_text="newest that Cache’s rules see")
    expect(seen.locator("th")).to_have_text("pears-cheaper")
    open_page(page, link, "#s=offline-notes&scene=2")  # nobody meets here
    expect(page.locator(".side-0 tr.record", has_text="newest here").locator("th")).to_have_text(
        "tuesday-again"
    )


def test_a_side_is_shown_no_more_of_a_record_than_it_was_told(page: Page, link: str) -> None:
    messages = record_run(find_scenario("notes-room"))["scenes"][0]["messages"]
    told = next(x for x in messages if "bob-note" in x["summary"])
    assert "Name" not in "".join(told["lines"])
    open_page(page, link, f"#step={told['arrives'] + 1}")
    row = page.locator(".side-1 tr.record", has_text="bob-note")
    expect(row.locator(".claimed").nth(1)).to_have_text("bob")  # Signed-By was advertised,
    expect(row.locator(".claimed").nth(0)).to_have_text("")  # and Name was not
    page.keyboard.press("End")
    expect(row.locator("td").nth(1)).not_to_have_text("")


@pytest.mark.req("000-WB-05")
def test_messages_show_their_exact_lines_and_what_changed(page: Page, link: str) -> None:
    open_page(page, link)
    page.check("#as-list")
    page.keyboard.press("Home")
    page.locator(".steps button", has_text="advertises").first.click()
    expect(page.locator("#tab-message")).to_have_attribute("aria-selected", "true")
    lines = page.locator(".message .facts li")
    recording = record_run(find_scenario("notes-room"))
    wanted = next(m for m in recording["scenes"][0]["messages"] if "advertises" in m["summary"])
    assert lines.count() == len(wanted["lines"])
    assert "Advertised('" in lines.first.inner_text()
    for phase in ("Bob", "Alice"):  # both directions
        page.locator(
            ".steps button", has_text=re.compile(f"{phase} hears.*(advertises|sums up)")
        ).first.click()
        expect(page.locator(".message h3")).to_contain_text(f"→ {phase}")
    page.locator("#as-list").uncheck()
    expect(page.locator("#diagram .arrow").first).to_be_visible()


@pytest.mark.req("000-WB-09")
def test_a_rule_is_edited_into_an_error_and_out_of_it(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator("#lace-0-rules").click()
    text = find_scenario("notes-room").scenario.rules[0][1]
    put(page, "editor-0", text.replace("Member(V).", "Membr(V)."))
    put(page, "editor-0", text + "\nOops(X) :- X = 'y'.\n")
    expect(page.locator("#judged-0")).to_contain_text("error")
    expect(page.locator(".side-0 .diagnostics")).to_contain_text("'=' is not part of the language")
    expect(page.locator(".side-0 .diagnostics")).to_contain_text(
        "Use the same variable in both places"
    )
    expect(page.locator("#editor-0 .cm-lintRange-error").first).to_be_visible()
    expect(page.locator("#apply-0")).to_be_disabled()
    grants = text[: text.index('#:json {"label": "Notes by members')]
    put(page, "editor-0", grants)
    expect(page.locator("#judged-0")).to_contain_text("✓ 3 rules")
    page.locator("#apply-0").click()
    expect(page.locator(".side-1 tbody")).not_to_contain_text("bob-note")  # the result changed
    expect(page.locator("#tab-watches .badge")).to_contain_text("✗")
    put(page, "editor-0", text)
    page.locator("#apply-0").click()
    expect(page.locator(".side-1 tbody")).to_contain_text("bob-note")
    expect(page.locator("#tab-watches .badge")).to_contain_text("✓")
    expect(page.locator("#editor-0 .cm-hits")).to_contain_text("2×")


def test_typing_key_by_key_is_judged_and_nothing_is_lost(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator("#lace-1-rules").click()
    page.locator("#editor-1 .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nSpare(P) :- Have(P), Spare(Q).\n")
    expect(page.locator("#judged-1")).to_contain_text("✓ 6 rules")
    expect(page.locator("#editor-1")).to_contain_text("Spare(P) :- Have(P), Spare(Q).")
    page.locator(".side-1 button", has_text="Take back").click()
    expect(page.locator("#editor-1")).not_to_contain_text("Spare")
    expect(page.locator("#judged-1")).to_contain_text("✓ 5 rules")


def test_a_rule_changes_in_the_middle_of_an_exchange(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator("#lace-1-rules").click()
    text = find_scenario("notes-room").scenario.rules[0][1]
    page.locator("#to-start").click()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    put(page, "editor-1", text[: text.index('#:json {"label": "Notes by members')])
    page.locator("#mid-1").click()
    page.locator("#tab-what-if").click()
    expect(page.locator(".changes")).to_contain_text("step 20: alice changes its rules")
    page.locator("#to-end").click()
    page.locator("#lace-1-records").click()
    expect(page.locator(".side-1 tbody")).to_contain_text("grant-bob")
    expect(page.locator(".side-1 tbody")).not_to_contain_text("bob-note")
    page.locator("#all-back").click()
    expect(page.locator(".side-1 tbody")).to_contain_text("bob-note")


def test_a_why_tree_and_a_why_not_are_read(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator(".side-0 th button", has_text="bob-note").click()
    why = page.locator(".why article").first
    expect(why.locator(".verdict")).to_contain_text("Bob may send it to Alice")
    tree = why.locator(".tree").first
    expect(tree).to_contain_text("Notes by members belong")
    expect(tree).to_contain_text("Who is a member")
    expect(tree).to_contain_text("Field('grant-bob','Member','0','bob')")
    tree.locator("button.ref", has_text="grant-bob").first.click()
    expect(page.locator(".why h3").first).to_have_text("Why grant-bob?")
    page.locator(".side-0 th button", has_text="mallory-note").click()
    expect(page.locator(".why .verdict").first).to_contain_text("my rules")
    expect(page.locator(".why .refusals").first).to_contain_text("fails at Member(V)")
    expect(page.locator(".why article").nth(1)).to_contain_text("Alice has not heard of it")
    expect(page.locator(".stops")).to_contain_text("closed: fixed point")


def test_clicking_a_record_brings_its_reasons_into_sight(page: Page, link: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    open_page(page, link)
    page.locator(".side-0 th button", has_text="mallory-note").click()
    expect(page.locator(".why h3").first).to_have_text("Why mallory-note?")
    expect(page.locator(".why .verdict").first).to_be_in_viewport(ratio=1)


@pytest.mark.req("000-WB-06")
def test_a_flipped_byte_is_refused_under_glass_and_on_arrival(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator(".side-0 th button", has_text="bob-note").click()
    page.locator("#tab-record").click()
    expect(page.locator("#valid")).to_have_text("✓ valid")
    expect(page.locator(".parts")).to_contain_text("Signed-By: V.")
    page.locator("#flip").click()
    expect(page.locator("#valid")).to_contain_text("✗ refused: record.hash-mismatch")
    expect(page.locator(".checks .bad").first).to_contain_text("expected")
    expect(page.locator(".inspection")).to_contain_text("Bytes that are not valid give no facts.")
    page.locator("#send-broken").click()
    row = page.locator(".side-1 tbody tr", has_text="bob-note")
    expect(row).to_contain_text("rejected")
    expect(row).to_contain_text("record.hash-mismatch")
    page.locator("#tab-why").click()
    expect(page.locator(".why article").nth(1)).to_contain_text("Rejected record.hash-mismatch")
    expect(page.locator("#outcome")).to_have_text("✓ fixed point")  # nothing else suffers


def test_what_befalls_a_message(page: Page, link: str) -> None:
    open_page(page, link)
    page.check("#as-list")
    page.locator(".steps button", has_text="asks for").first.click()
    for deed, outcome in (
        ("drop", "✗ interlace.gone"),
        ("cut", "✗ interlace.gone"),
        ("duplicate", None),
        ("swap", None),
        ("flip", None),
    ):
        page.locator(f"#deed-{deed}").click()
        expect(page.locator(f"#deed-{deed}")).to_have_attribute("aria-pressed", "true")
        if outcome is not None:
            page.uncheck("#as-list")
            gone = page.locator("#diagram .arrow.chosen .label")
            expect(gone).to_contain_text("lost" if deed == "drop" else "cut off")
        page.locator("#to-end").click()
        if outcome is not None:
            expect(page.locator("#outcome")).to_have_text(outcome)
        else:
            expect(page.locator("#outcome")).to_be_visible()
    page.locator("#tab-what-if").click()
    page.locator("#all-back").click()
    page.locator("#other-seed").click()
    expect(page.locator(".changes")).to_contain_text("seed 1")
    page.locator("#to-end").click()
    expect(page.locator("#outcome")).to_have_text("✓ fixed point")


def test_the_tick_advances_and_releases_the_statement(page: Page, link: str) -> None:
    open_page(page, link, "#s=embargo")
    expect(page.locator(".side-1 tbody th", has_text="statement")).to_have_count(0)
    page.locator("#tab-what-if").click()
    page.fill("#tick-seconds", "3700")
    page.locator("#tick").click()
    expect(page.locator(".changes")).to_contain_text("3700 s pass")
    page.locator("#to-end").click()
    expect(page.locator(".side-1 tbody th", has_text="statement")).to_be_visible()


def test_the_bait_test_and_the_peers_view(page: Page, link: str) -> None:
    open_page(page, link, "#s=bait-attack")
    page.locator("#tab-disclosure").click()
    page.locator("#bait-1").click()
    expect(page.locator("#bait-result-1")).to_contain_text("Bob’s hidden records stay hidden")
    expect(page.locator("#bait-result-1")).to_contain_text("Group Y")
    page.locator(".side-0 .tools input").check()
    row = page.locator(".side-0 tbody tr", has_text="diary")
    expect(row).to_contain_text("hidden from Alice")
    expect(row).to_contain_text("not visible")
    page.keyboard.press("2")
    page.keyboard.press("End")
    page.locator("#tab-disclosure").click()
    expect(page.locator(".disclosure article").nth(1)).to_contain_text(
        "Careless Carl does not have bait, and wants it"
    )
    expect(page.locator("#bait-result-1")).to_contain_text("Careless Carl gives away")
    expect(page.locator("#bait-result-1")).to_contain_text("without carls-diary, message")


def test_a_bait_test_says_what_could_be_found_and_when_there_is_nothing(
    page: Page, link: str
) -> None:
    """Carl exposes what he keeps back: rules that do not pry yet find nothing, others would."""
    text = find_scenario_text("bait-attack").replace(", Field(Q,'Group',_,'Y')", "")
    open_page(page, link, f"#z={page_packed(page, link, 'careless', text)}")
    page.keyboard.press("2")
    page.locator("#tab-disclosure").click()
    page.locator("#bait-1").click()
    result = page.locator("#bait-result-1")
    expect(result).to_contain_text("Careless Carl gives away what it keeps back")
    expect(result.locator("tr", has_text="Group Y")).to_contain_text("yes")
    nothing = text.replace("Field(P,'Group',_,'X')", "Field(P,'Group',_,_)")
    open_page(page, link, f"#z={page_packed(page, link, 'nothing', nothing)}")
    page.keyboard.press("2")
    page.locator("#tab-disclosure").click()
    page.locator("#bait-1").click()
    expect(result).to_contain_text("hides nothing here, so nothing was tested")
    expect(result).not_to_contain_text("✓")


def test_watches_turn_from_not_yet_to_true(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator("#tab-watches").click()
    one = page.locator(".watch-list li", has_text="bob has alice-note")
    expect(one).to_contain_text("holds")
    page.locator("#to-start").click()
    expect(one).to_contain_text("not yet")
    page.fill("#watch", "alice has mallory-note")
    page.locator(".watches button[type=submit]").click()
    added = page.locator(".watch-list li", has_text="alice has mallory-note")
    page.locator("#to-end").click()
    expect(added).to_contain_text("does not hold: missing: mallory-note")
    page.fill("#watch", "alice eats mallory-note")
    page.locator(".watches button[type=submit]").click()
    expect(page.locator(".watch-list")).to_contain_text("is not understood")
    added.locator("button").click()
    expect(added).to_have_count(0)


def test_a_link_carries_everything_and_opens_elsewhere(
    page: Page, browser: Browser, link: str
) -> None:
    open_page(page, link)
    page.locator("#lace-0-rules").click()
    text = find_scenario("notes-room").scenario.rules[0][1]
    put(page, "editor-0", text[: text.index('#:json {"label": "Notes by members')])
    page.locator("#apply-0").click()
    expect(page.locator(".side-1 tbody")).not_to_contain_text("bob-note")
    page.locator("#tab-scenario").click()
    for _ in range(5):
        page.keyboard.press("Escape")
    page.locator("#step-back").click()
    copy(page, "link")
    expect(page.locator("#notice")).to_contain_text("Copied: a link")
    shared = page.evaluate("navigator.clipboard.readText()")
    assert "z=" in shared.split("#")[1]
    assert "token" not in shared
    at = step_of(page)
    assert at[0] == at[1] - 1
    other = browser.new_context()
    second = other.new_page()
    second.goto(link)  # whoever opens it has a workbench of their own
    second.wait_for_selector("html[data-ready=ready]")
    second.goto(shared)
    expect(second.locator("#where")).to_have_text(f"{at[0]} / {at[1]}")
    expect(second.locator(".side-1 tbody")).not_to_contain_text("bob-note")
    other.close()


def test_a_link_of_an_unchanged_scenario_is_whole_and_opens_by_the_command(
    page: Page, link: str
) -> None:
    open_page(page, link, "#s=cache-fill&scene=2&step=7&tab=scenario")
    copy(page, "link")
    expect(page.locator("#notice")).to_contain_text("Copied: a link")
    shared = page.evaluate("navigator.clipboard.readText()")
    with workbench(shared) as other:
        page.goto(other)
        page.wait_for_selector("html[data-ready=ready]")
        expect(page.locator(".story h2")).to_have_text("Cache fill")
        is_at(page, 7)
        assert "z=" in page.url
        page.goto("about:blank")


@pytest.mark.parametrize(
    ("fragment", "said", "at"),
    [
        ("#z=AAAA&step=2", "The link is damaged", "2 / 46"),
        ("#z=%25%25&step=", "The link is damaged", "0 / 46"),
        ("#scene=-5&step=3.7", "", "3 / 46"),
        ("#scene=99&step=1e999", "", "20 / 20"),
        ("#scene=x&step=x&tab=<b>", "", "0 / 46"),
    ],
)
def test_a_broken_address_still_shows_something(
    page: Page, link: str, fragment: str, said: str, at: str
) -> None:
    open_page(page, link, fragment)
    expect(page.locator("#where")).to_have_text(at)
    expect(page.locator("#notice")).to_contain_text(said)


def test_a_scenario_that_is_not_there_is_said_and_another_is_shown(
    page: Page, link: str, faults: list[str]
) -> None:
    open_page(page, link, "#s=nothing")
    expect(page.locator("#notice")).to_have_text(
        "there is no scenario 'nothing'. Choose one from the list."
    )
    expect(page.locator(".story h2")).to_have_text("Notes room")
    assert len(faults) == 1  # the browser's own word about the file that is not there
    faults.clear()


def test_a_file_of_ones_own_survives_reloading_and_can_be_left_and_found_again(
    page: Page, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.toml"
    text = library()["cache-fill"].read_text(encoding="utf-8").replace("Cache fill", "Mine")
    mine.write_text(text, encoding="utf-8")
    with workbench(str(mine)) as link:
        page.route_web_socket("**/session", lambda _socket: None)
        page.goto(link)
        expect(page.locator(".story h2")).to_have_text("Mine")  # first of all, without any session
        page.unroute_all()
        page.goto("about:blank")
        page = page.context.new_page()
        open_page(page, link)
        expect(page.locator(".story h2")).to_have_text("Mine")
        page.keyboard.press("ArrowLeft")
        where = step_of(page)
        page.wait_for_function(f"location.hash.includes('step={where[0]}')")
        mine.write_text(text.replace("Mine", "Mine, again"), encoding="utf-8")
        page.reload()
        page.wait_for_selector("html[data-ready=ready]")
        expect(page.locator(".story h2")).to_have_text("Mine, again")
        assert step_of(page) == where
        page.select_option("#scenario", "embargo")
        expect(page.locator(".story h2")).to_have_text("Embargo")
        page.select_option("#scenario", "mine")
        expect(page.locator(".story h2")).to_have_text("Mine, again")


def test_a_toml_file_is_opened_and_one_that_is_too_large_is_refused(
    page: Page, link: str, tmp_path: Path
) -> None:
    open_page(page, link, "#tab=scenario")
    mine, huge = tmp_path / "mine.toml", tmp_path / "huge.toml"
    mine.write_text(library()["cache-fill"].read_text(encoding="utf-8"), encoding="utf-8")
    huge.write_text("#" * 300_000, encoding="utf-8")
    page.set_input_files("#open-toml", mine)
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    page.set_input_files("#open-toml", huge)
    expect(page.locator("#notice")).to_contain_text("huge.toml was not opened")
    answer = page.evaluate(
        "import('/engine.js').then((e) => e.ask({ do: 'check', text: 'x'.repeat(2e6) }))"
    )
    assert answer["message"] == "That is more text than the engine takes."
    expect(page.locator("#engine")).to_contain_text("engine ready")  # nothing was sent
    page.evaluate("navigator.clipboard.writeText('# many\\n'.repeat(50_000))")
    page.locator("#toml .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+V")
    expect(page.locator("#notice")).to_contain_text("That is too much text")
    assert "lace-scenario/1" in typed(page)  # what was there is there
    page.evaluate("navigator.clipboard.writeText('x'.repeat(200_000))")
    page.keyboard.press("Control+V")  # one long line: slow to colour if done carelessly
    page.locator("#run-toml").click()
    expect(page.locator(".problems")).to_contain_text("scenario.toml")
    page.locator("#tab-scenario").click()
    with page.expect_download() as download:
        page.locator("button", has_text="Save TOML").click()
    assert download.value.suggested_filename == "mine.toml"


def test_the_step_is_in_the_address_and_reloading_keeps_it(page: Page, link: str) -> None:
    open_page(page, link, "#s=cache-fill&scene=2&step=7&tab=plan")
    is_at(page, 7)
    expect(page.locator("#tab-plan")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("location.hash.includes('step=8')")
    page.reload()
    page.wait_for_selector("html[data-ready=ready]")
    is_at(page, 8)
    expect(page.locator(".scene[aria-current]")).to_contain_text("lowers a price")


@pytest.mark.req("000-WB-09")
def test_the_whole_scenario_is_edited_as_text(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator("#tab-scenario").click()
    text = write_scenario(find_scenario("notes-room").scenario)
    put(page, "toml", text.replace('has = ["alice-note"]', "has = []"))
    page.locator("#run-toml").click()
    page.locator("#to-start").click()
    expect(page.locator(".side-1")).to_contain_text("Nothing is stored here yet.")
    page.locator("#tab-scenario").click()
    put(page, "toml", text.replace('has = ["alice-note"]', 'has = ["alice-notes"]'))
    page.locator("#run-toml").click()
    expect(page.locator(".problems")).to_contain_text("there is no record 'alice-notes'")
    expect(page.locator(".problems")).to_contain_text("scenario.reference")


def test_a_typo_is_marked_while_typing_and_costs_no_text(page: Page, link: str) -> None:
    open_page(page, link, "#tab=scenario")
    text = library()["notes-room"].read_text(encoding="utf-8")
    assert "#" in text
    expect(page.locator("#toml .cm-content")).to_contain_text(text.splitlines()[0])
    told = page.locator("#toml .cm-line", has_text="Bob keeps a room").locator("span")
    expect(told).to_have_count(1)  # a text of several lines is one, whatever stands in it
    wrong = text.replace('has = ["alice-note"]', 'has = ["alice-notes"]')
    line = wrong[: wrong.index("alice-notes")].count("\n") + 1
    put(page, "toml", wrong)
    problems = page.locator(".scenario .problems")
    expect(problems).to_contain_text(f"line {line}")  # nothing was run yet
    expect(problems).to_contain_text("there is no record 'alice-notes'")
    expect(page.locator("#toml .cm-lint-marker-error").first).to_be_attached()
    page.locator("#run-toml").click()
    expect(page.locator("#notice")).to_contain_text("nothing was run")
    expect(page.locator("#tab-scenario")).to_have_attribute("aria-selected", "true")
    assert typed(page) == wrong
    right = wrong.replace("alice-notes", "alice-note") + "# mine\n"
    put(page, "toml", right)
    expect(problems).to_be_empty()
    page.locator("#run-toml").click()
    expect(page.locator("#drafted")).to_be_empty()
    assert typed(page) == right  # comments and layout are the author's
    page.locator("#toml .cm-content").click()
    page.keyboard.press("Control+Z")
    expect(problems).to_contain_text("alice-notes")  # undone across a run
    assert typed(page) == wrong


def test_a_fault_is_described_once(page: Page, link: str) -> None:
    open_page(page, link, "#tab=scenario")
    put(page, "toml", find_scenario_text("notes-room").replace("Alice hello", "Alice\\u0007"))
    said = page.locator(".problems li", has_text="text.control")
    expect(said).to_be_visible()
    assert said.inner_text().count("has a control character") == 1


def test_what_is_not_shown_is_not_fetched(page: Page, link: str) -> None:
    """A browser complains of what was fetched ahead and never used."""
    packed = page_packed(page, link, "sent", find_scenario_text("cache-fill"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_page(page, link, f"#z={packed}")
    assert [url for url in asked if "notes-room" in url] == []


def test_no_action_and_no_reload_loses_a_draft(page: Page, link: str) -> None:
    open_page(page, link)
    rules = find_scenario("notes-room").scenario.rules[0][1]
    mine, theirs = f"{rules}# of Bob\n", f"{rules}# of Alice\n"
    for side, text in ((0, mine), (1, theirs)):
        page.locator(f"#lace-{side}-rules").click()
        put(page, f"editor-{side}", text)
    page.locator("#tab-scenario").click()
    toml = library()["notes-room"].read_text(encoding="utf-8") + "# not run\n"
    put(page, "toml", toml)

    def all_there() -> None:
        assert typed(page, "editor-1") == theirs
        page.locator("#tab-scenario").click()
        expect(page.locator("#drafted")).to_have_text("Not run yet.")
        assert typed(page) == toml

    page.locator("#tab-what-if").click()
    page.locator("#other-seed").click()
    expect(page.locator(".changes")).to_contain_text("seed 1")
    assert typed(page, "editor-0") == mine
    all_there()
    page.locator("#tab-watches").click()
    page.fill("#watch", "alice has mallory-note")
    page.locator("#tab-why").click()
    page.locator("#tab-watches").click()
    expect(page.locator("#watch")).to_have_value("alice has mallory-note")
    page.locator(".watches button[type=submit]").click()
    expect(page.locator(".watch-list")).to_contain_text("alice has mallory-note")
    expect(page.locator("#watch")).to_have_value("")
    assert typed(page, "editor-0") == mine
    all_there()
    page.locator("#apply-0").click()
    expect(page.locator("#apply-0")).to_be_disabled()
    assert typed(page, "editor-0") == mine
    all_there()
    page.locator("#lace-1-records").click()
    page.locator("#lace-1-rules").click()
    all_there()
    page.locator("#editor-1 .cm-content").click()
    page.keyboard.press("Control+Z")  # the history was kept out of sight
    expect(page.locator("#apply-1")).to_be_disabled()
    page.keyboard.press("Control+Y")
    page.locator("#tab-watches").click()
    page.fill("#watch", "alice has half")
    page.locator("#tab-scenario").click()
    page.select_option("#scenario", "cache-fill")
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    expect(page.locator("#drafted")).to_be_empty()
    page.select_option("#scenario", "notes-room")
    expect(page.locator(".story h2")).to_have_text("Notes room")
    all_there()
    page.reload()
    page.wait_for_selector("html[data-ready=ready]")
    page.locator("#lace-1-rules").click()
    all_there()
    page.locator("#tab-watches").click()
    expect(page.locator("#watch")).to_have_value("alice has half")


def test_a_draft_goes_on_without_the_engine_and_is_what_is_saved(page: Page, link: str) -> None:
    sockets: list[WebSocketRoute] = []

    def once(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        if len(sockets) == 1:
            socket.connect_to_server()
        else:
            socket.close()

    page.route_web_socket("**/session", once)
    open_page(page, link, "#tab=scenario")
    put(page, "toml", find_scenario_text("notes-room") + "# half of")
    expect(page.locator("#drafted")).to_have_text("Not run yet.")
    sockets[0].close()
    expect(page.locator("#engine")).to_contain_text("engine gone")
    page.keyboard.type(" a thought")
    assert typed(page).endswith("# half of a thought")
    with page.expect_download() as saved:
        page.locator("#save-toml").click()
    assert saved.value.path().read_text(encoding="utf-8") == typed(page)
    # Another start of the workbench has another address, and what this tab keeps is not there.
    with page.expect_download() as kept:
        page.locator("#save-drafts").click()
    assert kept.value.suggested_filename == "notes-room.toml"
    assert kept.value.path().read_text(encoding="utf-8") == typed(page)
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", stay)
    page.goto("about:blank")
    assert asked == ["beforeunload"]


def test_a_draft_belongs_to_a_text_and_not_to_whatever_has_its_name(page: Page, link: str) -> None:
    theirs = find_scenario_text("notes-room").replace('"Notes room"', '"A stranger\'s room"')
    packed = page_packed(page, link, "notes-room", theirs)
    open_page(page, link, "#tab=scenario")
    mine = find_scenario_text("notes-room") + "# mine\n"
    put(page, "toml", mine)
    expect(page.locator("#drafted")).to_have_text("Not run yet.")
    page.evaluate("(z) => { location.hash = `z=${z}&tab=scenario`; }", packed)
    expect(page.locator(".story h2")).to_have_text("A stranger's room")
    expect(page.locator("#drafted")).to_be_empty()
    assert typed(page) == theirs
    put(page, "toml", theirs + "# of theirs\n")
    page.locator("#back-toml").click()
    expect(page.locator("#drafted")).to_be_empty()
    page.go_back()
    expect(page.locator(".story h2")).to_have_text("Notes room")
    assert typed(page) == mine
    page.locator("#run-toml").click()
    expect(page.locator("#drafted")).to_be_empty()
    put(page, "toml", mine + "# more\n")
    page.reload()  # what was run here is still the same scenario
    page.wait_for_selector("html[data-ready=ready]")
    assert typed(page) == mine + "# more\n"


def test_a_link_or_file_that_cannot_be_run_shows_its_text_to_be_mended(
    page: Page, link: str, tmp_path: Path
) -> None:
    text = library()["cache-fill"].read_text(encoding="utf-8")
    wrong = text.replace("interlace =", "interlaced =", 1)
    packed = page_packed(page, link, "sent", wrong)
    open_page(page, link, f"#z={packed}")
    expect(page.locator("#notice")).to_contain_text("nothing was run")
    expect(page.locator(".problems")).to_contain_text("interlaced")
    assert typed(page) == wrong
    put(page, "toml", text)
    page.locator("#run-toml").click()
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    broken = tmp_path / "broken.toml"
    broken.write_text(wrong, encoding="utf-8")
    page.locator("#tab-scenario").click()
    page.set_input_files("#open-toml", broken)
    expect(page.locator(".problems")).to_contain_text("interlaced")
    assert typed(page) == wrong
    with workbench(str(broken)) as own:
        open_page(page, own)
        expect(page.locator(".problems")).to_contain_text("interlaced")
        assert typed(page) == wrong
        put(page, "toml", text)
        page.locator("#run-toml").click()
        expect(page.locator(".story h2")).to_have_text("Cache fill")
        page.goto("about:blank")


def test_real_secrets_are_refused_with_a_notice(page: Page, link: str) -> None:
    open_page(page, link)
    page.locator("#tab-scenario").click()
    expect(page.locator(".keys-notice")).to_contain_text("Demo keys only")
    secret = demo_key("x").reveal()
    put(
        page,
        "toml",
        write_scenario(find_scenario("notes-room").scenario).replace('"mallory"', f'"{secret}"', 1),
    )
    page.locator("#run-toml").click()
    expect(page.locator(".problems")).to_contain_text("scenario.secret")
    expect(page.locator(".problems")).not_to_contain_text(secret)


def test_what_is_copied_runs(page: Page, link: str, tmp_path: Path) -> None:
    open_page(page, link)
    page.locator("#tab-scenario").click()
    copy(page, "test")
    expect(page.locator("#notice")).to_contain_text("Copied: a test")
    test = page.evaluate("navigator.clipboard.readText()")
    (tmp_path / "test_copied.py").write_text(test, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:randomly",
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    copy(page, "cli")
    expect(page.locator("#notice")).to_contain_text("Copied: commands")
    commands = page.evaluate("navigator.clipboard.readText()")
    assert "lace scenario run notes-room.toml" in commands
    with page.expect_download() as download:
        page.locator("#save-journal-1").click()
    replayed = lace("plumb", "journal", "replay", Path(download.value.path()))
    assert replayed.returncode == 0, replayed.stderr
    with page.expect_download() as download:
        page.locator("#save-svg").click()
    picture = Path(download.value.path()).read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "record bob-note" in picture


def test_what_a_strangers_link_carries_is_shown_before_it_is_copied_and_runs_nothing(
    page: Page, link: str, tmp_path: Path
) -> None:
    toml = library()["cache-fill"].read_text(encoding="utf-8")
    title = '\\"\\"\\"; open(\'owned\', \'w\'); \\"\\"\\"'
    packed = page_packed(page, link, "x; touch owned #", toml.replace("Cache fill", title))
    open_page(page, link, f"#z={packed}&tab=scenario")
    expect(page.locator(".story h2")).to_contain_text("open('owned', 'w')")
    page.evaluate("navigator.clipboard.writeText('what was there')")
    page.locator("#show-cli").click()
    expect(page.locator("#shared")).to_have_value(re.compile("lace scenario run x-touch-owned"))
    assert page.evaluate("navigator.clipboard.readText()") == "what was there"
    with page.expect_download() as saved:
        page.locator("#save-toml").click()
    assert saved.value.suggested_filename == "x-touch-owned.toml"
    copy(page, "cli")
    expect(page.locator("#notice")).to_contain_text("Copied: commands")
    commands = page.evaluate("navigator.clipboard.readText()")
    subprocess.run(["/bin/sh", "-c", commands], cwd=tmp_path, check=False, capture_output=True)
    copy(page, "test")
    expect(page.locator("#notice")).to_contain_text("Copied: a test")
    (tmp_path / "test_copied.py").write_text(
        page.evaluate("navigator.clipboard.readText()"), encoding="utf-8"
    )
    subprocess.run([sys.executable, "test_copied.py"], cwd=tmp_path, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"x-touch-owned.toml", "test_copied.py"}


def test_a_strangers_text_does_not_turn_or_hide_other_text(page: Page, link: str) -> None:
    toml = library()["notes-room"].read_text(encoding="utf-8")
    toml = toml.replace('title = "Notes room"', 'title = "Notes\\u202e room"')
    toml = toml.replace('Title = "Bob hello"', 'Title = "Bob\\u2066\\u200b hello"')
    toml = toml.replace('title = "Bob"', 'title = "B\\u202eob"')
    assert toml.count("\\u2") == 4
    open_page(page, link, f"#z={page_packed(page, link, 'turned', toml)}&tab=scenario")
    expect(page.locator(".story h2")).to_have_text("Notes· room")
    page.keyboard.press("End")
    for text in ("B·ob", "Bob·· hello"):
        expect(page.locator("body")).to_contain_text(text)
    shown = page.locator("#app").inner_text()
    assert not {"\u202e", "\u2066", "\u200b"} & set(shown)
    page.locator("#tab-scenario").click()
    assert typed(page) == toml  # what is run and passed on stays as it is


def page_packed(page: Page, link: str, name: str, toml: str) -> str:
    """Return what a link carries for a scenario, made by the page itself."""
    open_page(page, link)
    recording = {
        "scenario": {"name": name, "toml": toml},
        "changes": {"faults": [], "orders": [], "watched": [], "seed": 0},
    }
    made: str = page.evaluate("(r) => import('/share.js').then((s) => s.pack(r))", recording)
    page.goto("about:blank")
    return made


def test_everything_by_keyboard(page: Page, link: str) -> None:
    open_page(page, link)
    page.keyboard.press("Home")
    is_at(page, 0)
    page.keyboard.press("ArrowRight")
    is_at(page, 1)
    page.keyboard.press("p")
    expect(page.locator("#where")).not_to_have_text(re.compile("^1 / "))
    phase = step_of(page)[0]
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#where")).not_to_have_text(re.compile(f"^{phase} / "))
    assert step_of(page)[0] > phase > 1
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("one loop")
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("mallory")
    expect(page.locator(".side-0 tbody tr")).to_have_count(2)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    palette = page.locator("dialog[open]")
    expect(palette.locator("input")).to_be_focused()
    page.keyboard.type("cache fill")
    expect(palette).not_to_contain_text("Notes room")
    page.keyboard.press("Enter")
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    page.keyboard.press("g")
    page.keyboard.press("t")
    assert page.evaluate("document.activeElement.closest('.timeline') !== null")
    page.locator("#tab-why").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-message")).to_be_focused()
    page.keyboard.press("w")
    expect(page.locator("#tab-why")).to_have_attribute("aria-selected", "true")


def test_a_story_begins_at_its_beginning_and_ends_with_nothing_to_press(
    page: Page, link: str
) -> None:
    page.goto(link)
    page.wait_for_selector("html[data-ready=ready]")
    is_at(page, 0)
    expect(page.locator("#sentence")).to_have_text("Nothing has been said yet.")
    page.keyboard.press("2")
    is_at(page, 0)  # each scene too
    page.locator("#to-end").click()
    for button in ("step-on", "phase-on", "loop-on", "to-end"):
        expect(page.locator(f"#{button}")).to_be_disabled()
    page.locator("#step-back").click()
    expect(page.locator("#step-on")).to_be_enabled()
    at = step_of(page)[0]
    page.locator(".skip").focus()
    page.keyboard.press("Enter")  # a link within the page moves nothing else
    page.wait_for_function("location.hash.includes('details')")
    is_at(page, at)
    page.select_option("#scenario", "cache-fill")
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    is_at(page, 0)


def test_bare_ends_of_phases_are_left_out_unless_asked_for(page: Page, link: str) -> None:
    page.goto(link)
    page.wait_for_selector("html[data-ready=ready]")
    page.check("#as-list")
    whole = len(record_run(find_scenario("notes-room"))["scenes"][0]["frames"])
    expect(page.locator(".steps button").last).to_contain_text("reached the fixed point")
    few = page.locator(".steps button").count()
    assert few < whole * 0.7
    ends = [text for text in page.locator(".steps button").all_inner_texts() if "end of" in text]
    page.keyboard.press("End")
    expect(page.locator("#where")).to_have_text(f"{whole - 1} / {whole - 1}")
    page.keyboard.press("Home")
    seen = [page.locator("#sentence").inner_text()]
    for _ in range(few - 1):
        page.keyboard.press("ArrowRight")
        expect(page.locator("#sentence")).not_to_have_text(seen[-1])
        seen.append(page.locator("#sentence").inner_text())
    expect(page.locator("#outcome")).to_be_visible()  # as many steps as lines of the list
    assert sum("end of" in text for text in seen) == len(ends)
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert page.locator("#sentence").inner_text() == seen[-4]
    page.keyboard.press("Home")
    bare = page.locator(".steps button", has_text="end of setup")
    expect(bare).to_have_count(0)
    page.check("#show-ends")
    expect(bare).to_have_count(2)


def test_reasons_stand_beside_the_timeline_and_follow_it(page: Page, link: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(link)
    page.wait_for_selector("html[data-ready=ready]")
    timeline, why = page.locator(".timeline").bounding_box(), page.locator(".why").bounding_box()
    assert timeline is not None
    assert why is not None
    assert why["x"] >= timeline["x"] + timeline["width"]
    assert why["y"] + 200 <= 900  # in sight, without scrolling
    expect(page.locator(".stops")).to_have_count(0)  # nothing has stopped yet
    page.goto(f"{link}&s=notes-room&scene=0&step=19")
    is_at(page, 19)
    heading = page.locator(".why h3").first
    for name in ("grant-bob", "grant-alice"):
        page.keyboard.press("ArrowRight")  # a record comes
        expect(heading).to_have_text(f"Why {name}?")
    page.locator(".side-0 th button", has_text="mallory-note").click()
    expect(page.locator("#follows")).not_to_be_checked()
    page.keyboard.press("ArrowLeft")
    is_at(page, 21)
    expect(heading).to_have_text("Why mallory-note?")  # what was chosen stays
    page.locator("#follows").check()
    expect(heading).to_have_text("Why grant-bob?")
    page.locator("#tab-plan").click()  # what needs room stands below
    panel = page.locator("#details").bounding_box()
    assert panel is not None
    assert panel["y"] > timeline["y"] + timeline["height"]


def test_steps_that_are_taken_while_the_engine_starts_are_not_taken_back(
    page: Page, link: str
) -> None:
    held: list[tuple[WebSocketRoute, str | bytes]] = []

    def delay(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda said: held.append((socket, said)))

    page.route_web_socket("**/session", delay)
    page.goto(f"{link}&s=notes-room&scene=0&step=19")
    is_at(page, 19)
    for to in (21, 23):
        page.keyboard.press("ArrowRight")
        is_at(page, to)
        page.wait_for_timeout(200)
        for socket, said in held:  # first hello, then the scenario
            socket.send(said)
        held.clear()
    for _ in range(100):
        for socket, said in held:
            socket.send(said)
        held.clear()
        if page.locator("html[data-ready=ready]").count():
            break
        page.wait_for_timeout(100)
    expect(page.locator("html[data-ready=ready]")).to_have_count(1)
    is_at(page, 23)


def test_a_selection_is_typed_over_without_complaint_and_can_be_undone(
    page: Page, link: str
) -> None:
    open_page(page, link, "#s=notes-room&scene=0&step=0&tab=scenario")
    before = typed(page)
    page.locator("#toml .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.type("ab")  # the fixture looks for complaints
    assert typed(page) == "ab"
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.type("cd")
    assert typed(page) == "acd"
    for _ in range(4):
        page.keyboard.press("Control+Z")
    assert typed(page) == before


def test_a_why_not_goes_on_to_the_rules_of_what_was_lacking(page: Page, link: str) -> None:
    """A note whose signer is no member: not only that Member(V) fails, but why it does."""
    open_page(page, link)
    page.locator(".side-0 th button", has_text="mallory-note").click()
    beneath = page.locator(".why .beneath").first
    expect(beneath.locator("summary")).to_contain_text("Why not Member(")
    beneath.locator("summary").click()
    expect(beneath).to_contain_text("Who is a member fails at")


def test_the_tour_leads_through_the_notes_room_and_can_be_left(page: Page, link: str) -> None:
    """Eight stops by keyboard alone, as a screen reader would meet them."""
    page.goto(f"{link}&s=cache-fill")
    page.wait_for_selector("html[data-ready=ready]")
    expect(page.locator(".what")).to_contain_text("signed records in agreement")
    page.get_by_role("button", name="Take the tour (8 stops)").press("Enter")
    tour = page.get_by_role("region", name="Tour")
    seen = []
    wanted = {
        1: (".story h2", "Notes room"),
        2: ("#sentence", "rules"),
        3: ("#sentence", "advertises bob-note"),
        4: (".why h3 >> nth=0", "Why bob-note?"),
        5: ("#sentence", "stored grant-bob"),
        6: (".why .tree >> nth=0", "Member("),
        7: (".why .beneath >> nth=0", "Why not Member("),
        8: ("#outcome", "fixed point"),
    }
    for number, (place, text) in wanted.items():
        heading = tour.get_by_role("heading")
        expect(heading).to_contain_text(f"Stop {number} of 8")
        expect(heading).to_be_focused()
        expect(page.locator(place)).to_contain_text(text)
        seen.append(tour.aria_snapshot())
        if number == 4:  # left, and taken up again after a reload
            tour.get_by_role("button", name="Leave the tour").press("Enter")
            expect(tour).to_have_count(0)
            page.reload()
            page.wait_for_selector("html[data-ready=ready]")
            page.get_by_role("button", name="Go on with the tour (stop 4 of 8)").press("Enter")
            expect(heading).to_contain_text("Stop 4 of 8")
        if number < 8:
            tour.get_by_role("button", name="Next stop").press("Enter")
    assert len(set(seen)) == 8
    assert all("paragraph" in one and 'button "Back"' in one for one in seen)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run('.tour, .why').then((result) => result.violations.map((v) => v.id))"
    )
    assert found == []
    tour.get_by_role("button", name="Done").press("Enter")
    expect(page.get_by_role("button", name="Take the tour (8 stops)")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (1024, 768), (390, 844)])
def test_what_a_stop_of_the_tour_speaks_of_is_in_sight(
    page: Page, link: str, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(link)
    page.wait_for_selector("html[data-ready=ready]")
    page.locator("#tour").press("Enter")
    bob, alice = (page.locator(".why h4", has_text=f"On {who}") for who in ("Bob", "Alice"))
    timeline = page.locator(".timeline header")
    beside = width >= 1400
    parts = {3: timeline, 4: alice if beside else timeline, 6: alice, 7: bob}
    for number in range(1, 9):
        expect(page.locator(".tour h3")).to_contain_text(f"Stop {number} of 8")
        expect(page.locator(".tour")).to_be_in_viewport(ratio=1)
        if number in parts:
            expect(parts[number]).to_be_in_viewport(ratio=1)
            covered = page.locator(".tour").bounding_box()
            found = parts[number].bounding_box()
            assert covered is not None
            assert found is not None
            assert (found["y"] > covered["y"]) == beside  # it does not lie under the stop
        page.locator("#tour-on").press("Enter")
    expect(page.locator("#tour")).to_be_focused()  # whoever leaves goes on from there


def test_words_of_the_protocol_say_what_they_mean(page: Page, link: str) -> None:
    open_page(page, link, "#s=notes-room&scene=0&step=14")
    word = page.locator("#sentence .term", has_text="advertises")
    expect(word).to_have_attribute("title", re.compile("which records it could give"))
    page.locator("#scrub").fill("18")
    expect(page.locator("#sentence")).to_contain_text("asks for grant-bob")
    expect(page.locator("#sentence .term", has_text="grant")).to_have_count(0)  # it is a name
    said_of = (
        (0, "have"), (0, "hidden"), (0, "sendable"), (1, "advertised"), (1, "in flight"),
    )  # fmt: skip
    for side, said in said_of:
        found = page.locator(f".side-{side} .term", has_text=said).first
        expect(found).to_have_attribute("title", re.compile(r"\w"))
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    words = page.locator("dialog[open] .words dt")
    expect(words.filter(has_text="fixed point")).to_have_count(1)
    phases = {
        frame["after"]
        for frame in record_run(find_scenario("notes-room"))["scenes"][0]["frames"][1:]
    }
    assert phases <= set(words.all_inner_texts()) | {"closed", "aborted"}


def test_words_are_explained_by_keyboard_and_by_touch(browser: Browser, link: str) -> None:
    context = browser.new_context(has_touch=True, viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    open_page(page, link, "#s=notes-room&scene=0&step=14")
    word = page.locator("#sentence .term", has_text="advertises")
    word.tap()
    meaning = page.locator(".words div:focus")
    expect(meaning).to_contain_text("Says which records it could give")
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(word).to_be_focused()
    # One stop a table, however many rows it has.
    for side in (0, 1):
        stops = page.locator(f".side-{side} table .term:not([tabindex='-1'])")
        expect(stops).to_have_text(["Status"])
    page.locator(".side-0 table .term").first.press("Enter")
    expect(meaning).to_contain_text("How a record stands on this side")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_be_visible()
    expect(meaning).to_have_count(0)
    context.close()


def test_an_edit_says_what_it_changed_and_why(page: Page, link: str) -> None:
    """Rules without the notes of members: the notes no longer travel; taken back, they do again."""
    open_page(page, link)
    page.locator("#tab-compare").click()
    expect(page.locator(".panel .empty")).to_contain_text("Run something that you changed")
    page.locator("#lace-1-rules").click()
    rules = dict(find_scenario("notes-room").scenario.rules)["room"]
    put(page, "editor-1", rules[: rules.index('#:json {"label": "Notes by members')])
    expect(page.locator("#judged-1")).to_contain_text("✓ 3 rules")
    page.locator("#apply-1").click()
    gone = page.locator(".compare article", has_text="No longer travels").locator("li")
    expect(gone).to_have_count(2)
    expect(page.locator("#compared")).to_contain_text(
        "0 records travel now and did not, 2 records no longer."
    )
    expect(gone.filter(has_text="bob-note")).to_contain_text("to Alice, scene 1")
    expect(gone.filter(has_text="bob-note")).to_contain_text("Now: ")
    expect(gone.filter(has_text="bob-note")).to_contain_text("selector does not derive")
    gone.get_by_role("button", name="bob-note").click()
    expect(page.locator(".why h3").first).to_have_text("Why bob-note?")
    page.locator("#tab-what-if").click()
    page.locator("#other-seed").click()
    page.locator("#tab-compare").click()
    expect(page.locator("#compared")).to_contain_text("The same records travel.")
    page.select_option("#compare-with", "written")
    expect(gone).to_have_count(2)


def test_the_slider_leads_anywhere_in_the_scene(page: Page, link: str) -> None:
    open_page(page, link, "#s=notes-room&scene=0&step=0")
    slider = page.get_by_role("slider", name="Where in the scene")
    end = step_of(page)[1]
    slider.fill("20")
    is_at(page, 20)
    slider.press("ArrowRight")
    is_at(page, 21)
    slider.press("End")
    is_at(page, end)
    assert "fixed point" in (slider.get_attribute("aria-valuetext") or "")


def test_many_records_sent_together_stay_legible(page: Page, tmp_path: Path) -> None:
    """Each arrow is drawn near its end, labels do not cross, and what is not explained is said."""
    text = find_scenario_text("notes-room")
    ids = [f"n{number}" for number in range(120)]
    notes = "".join(
        f'[record.{id}]\nat = "//notes-demo//notes/message//msg/bob/{id}"\nby = "bob"\n'
        f'tai = "1699992000:000000001"\nfields = {{ Title = "{id}" }}\ndata = "{id}"\n\n'
        for id in ids
    )
    text = text.replace("[rules]", f"{notes}[rules]", 1)
    text = text.replace(
        '"bob-note", "mallory-note"', f'"bob-note", {str(ids)[1:-1]}, "mallory-note"', 1
    )
    (tmp_path / "many.toml").write_text(text, encoding="utf-8")
    with workbench(str(tmp_path / "many.toml")) as link:
        page.goto(link)
        page.wait_for_selector("html[data-ready=ready]")
        page.keyboard.press("End")
        end = step_of(page)[1]
        page.locator("#scrub").fill(str(int(page.locator("#scrub").get_attribute("max") or 0) // 2))
        expect(page.locator("#sentence")).to_contain_text("transfer")
        assert step_of(page)[0] < end
        boxes = page.evaluate(
            """() => [...document.querySelectorAll('.arrow.k-record .label')].map((label) => {
              const box = label.getBoundingClientRect();
              return [box.left, box.top, box.right, box.bottom];
            })"""
        )
        assert len(boxes) > 20
        tops = sorted(box[1] for box in boxes)
        assert all(below - above > 12 for above, below in pairwise(tops))
        named = page.locator(".why h3").first.inner_text()
        assert named.startswith("Why n")
        expect(page.locator(".why").get_by_text("Not known here")).to_have_count(0)
        page.goto("about:blank")


def test_a_map_shows_all_peers_of_a_story_and_who_meets_whom(page: Page, link: str) -> None:
    open_page(page, link, "#s=cache-fill&scene=0&step=0")
    shown = page.locator(".map")
    expect(shown.locator(".peer")).to_have_count(3)
    expect(shown.locator(".meets")).to_have_count(2)
    expect(shown.locator(".meets.here text")).to_have_text("1, 2, 3")
    built = find_scenario("cache-fill")
    done = run_scenario(built)
    page.locator(".meets:not(.here) text").click()
    expect(page.locator(".scene[aria-current] b")).to_have_text("4")
    page.keyboard.press("End")
    for peer in built.scenario.peers:
        line = f"{peer.title}: {len(done.steps[3].held[peer.id])} record"
        expect(shown.locator("li", has_text=line)).to_have_count(1)
    expect(shown.locator("ul")).to_contain_text("meets")
    page.select_option("#scenario", "notes-room")
    expect(page.locator(".story h2")).to_have_text("Notes room")
    expect(shown).to_have_count(0)  # two are there to be seen already


def test_back_leads_through_stories_scenes_and_tabs(page: Page, link: str) -> None:
    open_page(page, link, "#s=notes-room&scene=0&step=3")
    page.keyboard.press("2")
    page.locator("#tab-plan").click()
    page.select_option("#scenario", "cache-fill")
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    page.go_back()
    expect(page.locator(".story h2")).to_have_text("Notes room")
    expect(page.locator("#tab-plan")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.locator("#tab-why")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".scene[aria-current] b")).to_have_text("2")
    page.go_back()
    expect(page.locator(".scene[aria-current] b")).to_have_text("1")
    is_at(page, 3)
    page.go_forward()
    expect(page.locator(".scene[aria-current] b")).to_have_text("2")


def test_back_leads_from_what_was_run_to_what_was_there_before(page: Page, link: str) -> None:
    open_page(page, link, "#s=notes-room&scene=0&step=0&tab=scenario")
    text = find_scenario_text("notes-room")
    title = page.locator(".story h2")
    for name in ("Once", "Twice"):
        put(page, "toml", text.replace('title = "Notes room"', f'title = "{name}"'))
        page.locator("#run-toml").click()
        expect(title).to_have_text(name)
    page.select_option("#scenario", "cache-fill")
    expect(title).to_have_text("Cache fill")
    for name in ("Twice", "Once", "Notes room"):
        page.go_back()
        expect(title).to_have_text(name)
    assert typed(page) == text
    assert "#s=notes-room&" in page.url
    for name in ("Once", "Twice", "Cache fill"):
        page.go_forward()
        expect(title).to_have_text(name)


def test_an_engine_that_was_lost_is_found_again(page: Page, link: str) -> None:
    sockets: list[WebSocketRoute] = []

    def through(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/session", through)
    open_page(page, link, "#s=revocation&scene=2&step=5")
    expect(page.locator("#engine")).to_contain_text("engine ready")
    sockets[0].close()
    expect(page.locator("#engine")).to_contain_text("engine gone")
    expect(page.locator("#engine")).to_contain_text("engine ready")
    assert len(sockets) == 2
    is_at(page, 5)
    page.locator("#tab-what-if").click()
    page.locator("#other-seed").click()  # it runs again
    expect(page.locator(".changes")).to_contain_text("Turns drawn by seed 1")


def test_the_palette_is_walked_with_arrows(page: Page, link: str) -> None:
    open_page(page, link)
    focused = page.evaluate(
        """async () => {
          document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
          for (let turn = 0; turn < 10; turn += 1) await null;
          return document.activeElement.id;
        }"""
    )
    assert focused == "palette"  # before any other key can come
    page.keyboard.type("show ")
    entries = page.locator(".palette button")
    expect(entries.first).to_have_text("Show why")
    page.keyboard.press("ArrowDown")
    expect(entries.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(entries.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#tab-message")).to_have_attribute("aria-selected", "true")


def test_each_step_is_a_sentence_that_is_read_out(page: Page, link: str) -> None:
    open_page(page, link)
    live = page.locator("#sentence")
    expect(live).to_have_attribute("aria-live", "polite")
    page.keyboard.press("Home")
    seen = set()
    for number in range(1, 13):
        page.keyboard.press("ArrowRight")
        is_at(page, number)
        seen.add(live.inner_text())
    assert len(seen) == 12
    assert all(text.endswith(".") for text in seen)


@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", "{}"), ("dark", "{ runOnly: ['color-contrast'] }")]
)
def test_axe_finds_nothing(page: Page, link: str, scheme: str, rules: str) -> None:
    """Everything in the light; in the dark only the colours differ."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    open_page(page, link, "#s=cache-fill&scene=2")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for tab in TABS:
        page.locator(f"#tab-{tab}").click()
        if tab == "disclosure":
            page.locator("#bait-1").click()
        if tab == "record":
            page.locator("#lace-0-rules").click()
        found = page.evaluate(
            f"axe.run(document, {rules}).then((r) => r.violations.map((v) => [v.id, v.help, v.nodes.map((n) => n.html.slice(0, 200) + ' | ' + n.failureSummary)]))"
        )
        assert found == [], (tab, found)
    page.check("#as-list")
    page.keyboard.press("Home")  # what is still to come is as legible as what was
    expect(page.locator(".steps .later").first).to_be_visible()
    found = page.evaluate(
        f"axe.run(document, {rules}).then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]))"
    )
    assert found == []
    page.keyboard.press("?")
    found = page.evaluate(
        f"axe.run(document, {rules}).then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]))"
    )
    assert found == []


def test_it_works_at_double_size_and_on_a_small_screen(page: Page, link: str) -> None:
    for width, height in ((720, 500), (390, 800)):  # 1440 at 200 %, and a phone
        page.set_viewport_size({"width": width, "height": height})
        open_page(page, link)
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"
        )
        page.locator("#step-back").click()
        expect(page.locator("#sentence")).to_be_visible()
    page.locator("#tab-watches").click()
    button = page.locator(".watches form button").bounding_box()
    assert button is not None
    assert button["height"] < 40  # one line: words are not broken to make room


def test_the_graph_leads_from_grants_to_what_they_speak_for(page: Page, link: str) -> None:
    open_page(page, link, "#s=notes-room&scene=0&step=0&tab=graph")
    edges = page.locator(".graph .edges li")
    expect(edges.filter(has_text="grant-bob names (Member) key bob")).to_have_count(1)
    expect(edges.filter(has_text="speaks for")).to_have_count(0)  # nothing was decided yet
    page.keyboard.press("End")
    expect(edges.filter(has_text="grant-bob speaks for bob-note")).to_have_count(1)
    expect(edges.filter(has_text="forged-grant speaks for")).to_have_count(0)
    expect(page.locator(".graph .node.record")).to_have_count(6)
    page.locator(".graph .node", has_text="mallory-note").click()
    expect(page.locator(".why h3").first).to_have_text("Why mallory-note?")
    open_page(page, link, "#s=published-wrapper&scene=0&step=0&tab=graph")
    expect(page.locator(".graph .edges li", has_text="links to").first).to_be_visible()


def test_two_policies_are_compared_with_the_run_that_was_kept(page: Page, link: str) -> None:
    open_page(page, link, "#s=notes-room&scene=0&step=0&tab=compare")
    page.locator("#keep-run").click()
    expect(page.locator(".panel .empty")).to_contain_text("This run is kept")
    text = dict(find_scenario("notes-room").scenario.rules)["room"]
    fewer = text[: text.index('#:json {"label": "Notes by members')]
    for rules in ("//notes-demo//notes//", fewer):
        page.locator("#lace-1-rules").click()
        put(page, "editor-1", rules)
        page.locator("#apply-1").click()
        page.locator("#lace-1-records").click()
    expect(page.locator("#compare-with")).to_have_value("kept")
    expect(page.locator("#compared")).to_contain_text("2 records no longer")
    policies = page.locator(".policies")
    expect(policies.locator("h4")).to_have_text("Rules of Alice")
    expect(policies.locator(".bad")).to_have_count(2)
    page.select_option("#compare-with", "previous")
    expect(policies.locator(".good")).not_to_have_count(0)


def test_long_names_stay_on_a_small_screen(page: Page, tmp_path: Path) -> None:
    text = find_scenario_text("notes-room")
    for short in ("bob-note", "alice-note"):
        text = text.replace(short, f"{short}{'x' * 30}")
    for title in ("Alice", "Bob", "Notes room"):
        text = text.replace(f'title = "{title}"', f'title = "{title * 12}"')
    (tmp_path / "long.toml").write_text(text)
    page.set_viewport_size({"width": 390, "height": 800})
    with workbench(str(tmp_path / "long.toml")) as link:
        open_page(page, link)
        for tab in TABS:
            page.locator(f"#tab-{tab}").click()
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, tab


def test_stepping_asks_for_nothing(page: Page, exported: str) -> None:
    """Not even for the icon, although the address changes with each step."""
    page.goto(exported)
    page.wait_for_selector("html[data-ready]")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    is_at(page, 5)
    assert [url for url in asked if not url.startswith("data:")] == []


def test_nothing_comes_from_outside(page: Page, link: str, faults: list[str]) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_page(page, link)
    page.locator("#lace-0-rules").click()
    host = link.split("/#", maxsplit=1)[0]
    assert asked
    assert all(url.startswith((host, "data:", "blob:")) for url in asked), asked
    assert faults == []  # the strict policy of the page stops nothing of its own


def test_the_token_leaves_the_address_and_stays_with_the_tab(page: Page, link: str) -> None:
    """No cookie holds it, which each port of this machine would receive."""
    open_page(page, link, "#s=cache-fill")
    assert "token" not in page.url
    assert "#s=cache-fill&" in page.url
    assert page.context.cookies() == []
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_selector("html[data-ready=ready]")
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    assert asked
    secret = link.split("token=")[1].split("&", maxsplit=1)[0]
    assert not any(secret in url for url in asked)


def test_without_the_link_a_page_shows_nothing_and_says_what_to_do(
    page: Page, link: str, faults: list[str]
) -> None:
    page.goto(link.split("#", maxsplit=1)[0])
    page.wait_for_selector("html[data-ready=recorded]")
    expect(page.locator("body")).to_contain_text("open the link that it prints")
    assert page.locator(".story h2").count() == 0
    faults[:] = [one for one in faults if "403" not in one]  # the browser reports each refusal
    assert faults == []
    page.goto(link)  # the same page, which only gets another address
    page.wait_for_selector("html[data-ready=ready]")
    assert "token" not in page.url


def test_the_first_picture_waits_for_no_engine(page: Page, link: str) -> None:
    """The socket is never answered, and the page shows the notes room all the same."""
    page.route_web_socket("**/session", lambda _socket: None)
    page.goto(link)
    expect(page.locator(".story h2")).to_have_text("Notes room")
    is_at(page, 0)  # a story begins at its beginning
    expect(page.locator("#step-back")).to_be_disabled()
    page.keyboard.press("End")
    expect(page.locator("#outcome")).to_have_text("✓ fixed point")
    page.keyboard.press("ArrowLeft")
    is_at(page, step_of(page)[1] - 1)


def test_what_is_open_before_the_engine_is_there_can_be_edited_afterwards(
    page: Page, link: str
) -> None:
    page.goto(f"{link}&tab=scenario")
    page.wait_for_selector("#toml .cm-content")
    page.wait_for_selector("html[data-ready=ready]")
    put(page, "toml", "x = 1")
    expect(page.locator("#run-toml")).to_be_enabled()
    page.locator("#run-toml").click()
    expect(page.locator(".problems")).to_contain_text("line 1")


def test_the_exported_page_steps_without_any_engine(page: Page, exported: str) -> None:
    page.goto(f"{exported}#s=signed-manifest&scene=0")
    page.wait_for_selector("html[data-ready=recorded]")
    expect(page.locator("#engine")).to_contain_text("recording")
    is_at(page, 0)
    page.keyboard.press("End")
    expect(page.locator("#outcome")).to_have_text("✓ fixed point")
    expect(page.locator(".side-1 tbody tr", has_text="rejected")).to_contain_text("logo")
    page.locator(".side-1 th button", has_text="page").click()
    expect(page.locator(".why .tree").first).to_contain_text("Listed")
    page.locator("#tab-record").click()
    expect(page.locator("#flip")).to_be_disabled()
    options = page.locator("#scenario option")
    assert options.count() == len(NAMES)
    page.select_option("#scenario", "revocation")
    expect(page.locator(".story h2")).to_have_text("Revocation")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    is_at(page, 1)


def test_an_exported_page_opens_its_own_link(page: Page, exported: str, exported_to: Path) -> None:
    for place in (exported, (exported_to / "workbench.html").as_uri()):
        page.goto(f"{place}#s=revocation&scene=2&step=4&tab=scenario")
        page.wait_for_selector("html[data-ready=recorded]")
        page.locator("#show-link").click()
        expect(page.locator("#shared")).to_have_value(re.compile("z="))
        shared = page.locator("#shared").input_value()
        page.goto("about:blank")
        page.goto(shared)
        page.wait_for_selector("html[data-ready=recorded]")
        expect(page.locator(".story h2")).to_have_text("Revocation")
        is_at(page, 4)
        expect(page.locator("#notice")).to_be_empty()


def test_the_single_file_opens_without_any_server(
    page: Page, exported_to: Path, faults: list[str]
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    file = (exported_to / "workbench.html").as_uri()
    page.goto(f"{file}#s=revocation&scene=2&step=9")
    page.wait_for_selector("html[data-ready=recorded]")
    expect(page.locator(".story h2")).to_have_text("Revocation")
    is_at(page, 9)
    page.keyboard.press("ArrowRight")
    is_at(page, 10)
    assert page.locator("#scenario option").count() == len(NAMES)
    page.select_option("#scenario", "cache-fill")
    expect(page.locator(".story h2")).to_have_text("Cache fill")
    page.locator("#lace-0-rules").click()
    expect(page.locator("#editor-0 .cm-content")).to_be_visible()
    assert {url.split(":", 1)[0] for url in asked if not url.startswith(file)} <= {"data"}
    page.goto((exported_to / "index.html").as_uri())  # browsers load no modules from files
    faults.clear()
    page.locator("a", has_text="open the single file").click()
    expect(page.locator(".story h2")).to_have_text("Notes room")


def test_ten_thousand_steps_stay_usable(page: Page, exported: str) -> None:
    """A recording as long as recordings get: only what is in sight is drawn, and every step is quick to reach."""
    recording = record_run(find_scenario("notes-room"))
    scene = recording["scenes"][0]
    frames, messages = scene["frames"][1:], scene["messages"]
    while len(scene["frames"]) <= 10_000:
        shift = len(scene["frames"]) - 1
        for frame in frames:
            scene["frames"].append(frame | {"step": shift + frame["step"], "message": None})
    scene["frames"] = scene["frames"][:10_001]
    scene["messages"] = messages
    scene["cut"] = 31_233
    page.route("**/recordings/notes-room.json", lambda route: route.fulfill(json=recording))
    page.goto(f"{exported}#s=notes-room&scene=0&step=5000")
    page.wait_for_selector("html[data-ready=recorded]")
    expect(page.locator("#where")).to_have_text("5000 / 10000")
    expect(page.locator(".timeline .notice")).to_have_text(
        "Showing the first 10000 of 41233 steps."
    )
    assert page.locator("#diagram .dot").count() < 200
    page.keyboard.press("End")
    expect(page.locator("#where")).to_have_text("10000 / 10000")
    page.keyboard.press("ArrowLeft")
    page.check("#as-list")
    assert page.locator(".steps li").count() < 200
    expect(page.locator(".steps [aria-current]")).to_be_visible()
