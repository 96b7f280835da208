"""Every scenario that comes with Lace keeps its word, and could break it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lace.crypto.native import digest
from lace.driving.pair import interlace
from lace.ids import record_hash
from lace.interlace import messages as m
from lace.record.model import Seal
from lace.scenario.build import Built, build, load_scenario
from lace.scenario.expect import FORMS
from lace.scenario.library import find_scenario, library, scenario_text
from lace.scenario.link import crossing_bytes
from lace.scenario.model import Expectation, Scenario
from lace.scenario.run import Fate, Run, World, run_scenario
from lace.scenario.write import write_scenario
from lace.workbench.recording import record_run

NAMES = tuple(library())


def run(name: str) -> Run:
    return run_scenario(find_scenario(name))


def keeps_its_word(name: str) -> None:
    done = run(name)
    assert [check for check in done.checks if not check.ok] == []
    assert done.checks


def rules_of(scenario: Scenario, name: str, old: str, new: str) -> Built:
    """Return the scenario with a change in its shared rules."""
    texts = dict(scenario.rules)
    assert old in texts[name]
    return build(replace(scenario, rules=((name, texts[name].replace(old, new)),)))


def failures(built: Built) -> list[str]:
    return [check.text for check in run_scenario(built).checks if not check.ok]


def test_all_of_them_are_there() -> None:
    assert set(NAMES) == {
        "embargo",
        "notes-room", "offline-notes", "approval-workflow", "key-rotation", "signed-manifest",
        "device-onboarding", "published-wrapper", "cache-fill", "revocation", "bait-attack",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_each_scenario_expects_something_of_every_exchange(name: str) -> None:
    scenario = find_scenario(name).scenario
    assert all(step.expect for step in scenario.steps)
    assert any(step.interlace for step in scenario.steps)
    assert scenario.story


@pytest.mark.req("000-NOT-01", "000-NOT-02", "000-NOT-03", "000-NOT-04", "000-NOT-05")
@pytest.mark.req("000-SYN-04", "000-SYN-05")
def test_the_notes_room() -> None:
    keeps_its_word("notes-room")


def test_each_rule_of_the_notes_room_has_a_label_of_its_own() -> None:
    """The tour shows them: two rules of one name could not be told apart."""
    checked = record_run(find_scenario("notes-room"))["scenario"]["peers"][0]["checked"]
    labels = [rule["notes"].get("label") for rule in checked["rules"]]
    assert all(labels)
    assert len(set(labels)) == len(labels) == 5


@pytest.mark.req("000-NOT-04", "000-NOT-05")
def test_a_room_that_believes_every_grant_lets_mallory_in() -> None:
    scenario = find_scenario("notes-room").scenario
    open_room = rules_of(scenario, "room", ", Field(G,'Member',_,V)", ", Field(G,'Member',_,V)")
    assert failures(open_room) == []
    believing = dict(scenario.rules)["room"].replace("'{authority}'", "_")
    failed = failures(build(replace(scenario, rules=(("room", believing),))))
    assert "alice lacks mallory-note, forged-grant" in failed
    assert "alice never learns mallory-note, forged-grant" in failed
    assert "alice does not derive Member('{mallory}')" in failed


@pytest.mark.req("000-NOT-06")
def test_a_note_with_a_broken_signature_is_rejected_and_reported() -> None:
    """Bob's lace is made to hold a note whose hashes are right and whose signature is not."""
    built = find_scenario("notes-room")
    world = World.begin(built)
    note = built.records["bob-note"]
    head = len("🖧: ".encode()) + len(note.hash) + 1
    other = note.parts[2][:-2] + (b"10" if note.parts[2][-2:] != b"10" else b"20")
    payload = note.raw[head:].replace(note.parts[2], other)
    hash = record_hash("S", digest(payload))
    raw = f"🖧: {hash}\n".encode() + payload
    parts = (hash[2:-3].encode(), note.parts[1], other, *note.parts[3:])
    world.stores["bob"].save([Seal(hash, raw, parts)])
    link = world.meet(0).link
    link.run()
    told = [event for delivery in link.deliveries if delivery.to == 1 for event in delivery.events]
    rejected = [event for event in told if isinstance(event, m.RecordRejected)]
    assert [(event.hash, str(event.code)) for event in rejected] == [(hash, "record.signature")]
    assert hash not in world.held("alice")
    assert note.hash in world.held("alice")  # the true note came all the same
    assert any(isinstance(event, m.FixedPoint) for event in told)


@pytest.mark.req("000-NOT-07")
def test_a_server_that_selects_no_notes_moves_none() -> None:
    scenario = find_scenario("notes-room").scenario
    room = dict(scenario.rules)["room"]
    grants_only = room[: room.index('#:json {"label": "Notes by members')]
    done = run_scenario(build(scenario.with_rules("bob", grants_only)))
    assert done.steps[-1].held["alice"]
    names = {done.built.id_of(hash) for hash in done.steps[-1].held["alice"]}
    assert names == {"alice-note", "grant-alice", "grant-bob"}


@pytest.mark.req("000-SCN-01", "000-SYN-07", "000-REC-04", "000-REC-05")
def test_offline_notes() -> None:
    keeps_its_word("offline-notes")


@pytest.mark.req("000-SCN-02")
def test_the_approval_workflow() -> None:
    keeps_its_word("approval-workflow")


def test_counting_approvals_instead_of_editors_breaks_the_workflow() -> None:
    scenario = find_scenario("approval-workflow").scenario
    careless = dict(scenario.rules)["two-of-three"]
    careless = careless.replace("Vote(P,V)", "Vote(P,A)").replace(
        "Vote(P,_),'>=','2'", "Vote(P,_),'>','1'"
    )
    failed = failures(build(replace(scenario, rules=(("two-of-three", careless),))))
    assert "press lacks release" in failed


@pytest.mark.req("000-SCN-03")
def test_key_rotation() -> None:
    keeps_its_word("key-rotation")


def test_without_a_cut_off_the_stolen_post_gets_through() -> None:
    scenario = find_scenario("key-rotation").scenario
    failed = failures(rules_of(scenario, "site", ", not Gone(K)", ""))
    assert "reader has only first-post, rotation, second-post" in failed
    assert "reader never learns stolen-post" in failed


@pytest.mark.req("000-SCN-04", "000-SYN-02")
def test_the_signed_manifest() -> None:
    keeps_its_word("signed-manifest")


@pytest.mark.req("000-SCN-05", "000-REC-06")
def test_device_onboarding() -> None:
    keeps_its_word("device-onboarding")


@pytest.mark.req("000-SCN-06")
def test_published_wrappers() -> None:
    keeps_its_word("published-wrapper")


@pytest.mark.req("000-SCN-07", "000-SYN-03", "000-SYN-06")
def test_cache_fill() -> None:
    keeps_its_word("cache-fill")


def test_revocation() -> None:
    keeps_its_word("revocation")


def test_the_embargo() -> None:
    keeps_its_word("embargo")


def test_without_the_tick_the_statement_is_out_too_early() -> None:
    scenario = find_scenario("embargo").scenario
    rules = dict(scenario.rules)["after-noon"].replace(", TickTAI(Now), LexCompare(T,'<=',Now)", "")
    failed = failures(build(replace(scenario, rules=(("after-noon", rules),))))
    assert failed[:2] == ["newsroom has only menu", "newsroom never learns statement"]


@pytest.mark.req("040-DIS-01", "040-DIS-05")
def test_the_bait_attack() -> None:
    keeps_its_word("bait-attack")


@pytest.mark.req("040-DIS-05")
def test_exposing_everything_makes_the_bait_work_and_the_scenario_fail() -> None:
    scenario = find_scenario("bait-attack").scenario
    bob = replace(scenario.peer("bob"), expose=("everything",))
    peers = tuple(bob if peer.id == "bob" else peer for peer in scenario.peers)
    done = run_scenario(build(replace(scenario, peers=peers)))
    failed = {check.text: check.detail for check in done.checks if not check.ok}
    assert "bob lacks bait" in failed
    assert (
        "without carls-diary, diary, message" in failed["alice never learns Group Y"]
    )  # found by comparing
    assert "bob declines bait because of their rules" in failed
    assert "without diary, message" in failed["bob passes the bait test"]


def _meets(exposed: str, rules: str) -> dict[str, tuple[bool, str]]:
    """Return what is found of Bob, who has a rule for Group X and meets rules that do not pry."""
    scenario = find_scenario("bait-attack").scenario
    honest = dict(scenario.rules)["group-x"]
    bob = replace(scenario.peer("bob"), expose=(exposed,), rules=rules or honest)
    peers = (bob, replace(scenario.peer("alice"), rules=honest))
    expected = (Expectation(text="bob passes the bait test"),)
    steps = (replace(scenario.steps[0], expect=expected),)
    done = run_scenario(build(replace(scenario, peers=peers, steps=steps)))
    return {check.text: (check.ok, check.detail) for check in done.checks}


@pytest.mark.req("040-DIS-05")
def test_what_prying_rules_would_find_is_found_before_anybody_pries() -> None:
    """Bob keeps the diary back and exposes it: nobody asked after it yet, and anybody could."""
    ok, detail = _meets("everything", "")["bob passes the bait test"]
    assert not ok
    assert "rules that pry find out App diary, Group Y, Name today" in detail
    ok, detail = _meets("selected", "")["bob passes the bait test"]
    assert ok
    assert "3 hidden values were asked after" in detail


def test_a_bait_test_without_anything_hidden_is_no_success() -> None:
    """Bob would give the diary to whoever wants it: it is not hidden, though nobody heard of it."""
    gives = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    ok, detail = _meets("selected", gives)["bob passes the bait test"]
    assert not ok
    assert detail == "Bait test: nothing is hidden here, so nothing was tested."


def test_a_request_that_rests_on_a_hidden_record_is_found() -> None:
    """Bob has the diary from Carl and shows it to nobody; yet only because of it he asks Alice."""
    scenario = find_scenario("bait-attack").scenario
    asking = """
    SelectHave(P) :- Have(P), Field(P,'Group',_,'X').
    SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'X'), Field(Q,'Group',_,'Y').
    """
    everything = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,_).\n"
    peers = tuple(
        replace(
            peer,
            rules=everything,
            has=("chat",) if peer.id == "bob" else peer.has,
            expose=("none",) if peer.id == "bob" else peer.expose,
        )
        for peer in scenario.peers
    )
    first = replace(scenario.steps[1], say="Bob meets Carl.", interlace=("bob", "carl"), expect=())
    expected = tuple(
        Expectation(text=text)
        for text in ("bob has bait", "alice lacks carls-diary", "bob passes the bait test")
    )
    second = replace(
        scenario.steps[0], rules=(("bob", asking), ("alice", everything)), expect=expected
    )
    done = run_scenario(build(replace(scenario, peers=peers, steps=(first, second))))
    failed = {check.text: check.detail for check in done.checks if not check.ok}
    assert list(failed) == ["bob passes the bait test"]
    assert failed["bob passes the bait test"].startswith("without carls-diary")
    assert "(scene 2, step" in failed["bob passes the bait test"]


def test_a_hidden_record_that_came_while_an_exchange_stayed_open_is_found() -> None:
    """Bob and Alice stay connected; the diary comes from Carl, and then Bob wants the bait."""
    scenario = find_scenario("bait-attack").scenario
    everything = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,_).\n"
    bob = replace(scenario.peer("bob"), has=("chat",), rules=everything, expose=("everything",))
    carl = replace(scenario.peer("carl"), rules=everything)
    peers = (bob, carl, scenario.peer("alice"))
    first = replace(scenario.steps[0], stay=True, expect=())
    second = replace(scenario.steps[1], interlace=("bob", "carl"), expect=())
    expected = tuple(
        Expectation(text=text) for text in ("bob has bait", "bob passes the bait test")
    )
    third = replace(first, store=(("bob", ("chat",)),), expect=expected)
    done = run_scenario(build(replace(scenario, peers=peers, steps=(first, second, third))))
    failed = {check.text: check.detail for check in done.checks if not check.ok}
    assert list(failed) == ["bob passes the bait test"]
    assert failed["bob passes the bait test"].startswith("without carls-diary, message")
    assert "(scene 3, step" in failed["bob passes the bait test"]


def test_declassifying_local_rules_are_found_by_comparing() -> None:
    """Bob's own rule lets the chat out only because of the diary: nothing names it, yet it shows."""
    scenario = find_scenario("bait-attack").scenario
    telling = """
    SelectHave(P) :- Have(P), Field(P,'Group',_,'X'), Field(Q,'Group',_,'Y').
    SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'X').
    """
    done = run_scenario(build(scenario.with_rules("bob", telling)))
    failed = {check.text: check.detail for check in done.checks if not check.ok}
    assert "without diary, message" in failed["alice never learns diary"]


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_is_written_and_read_back(name: str) -> None:
    scenario = find_scenario(name).scenario

    def placeless(one: Scenario) -> Scenario:
        return replace(
            one,
            steps=tuple(
                replace(step, expect=tuple(Expectation(text=e.text) for e in step.expect))
                for step in one.steps
            ),
        )

    again = load_scenario(write_scenario(scenario), name).scenario
    assert placeless(again) == placeless(scenario)
    assert write_scenario(again) == write_scenario(scenario)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_scenario_always_gives_the_same_run(name: str) -> None:
    one, other = run(name), run(name)
    for first, second in zip(one.steps, other.steps, strict=True):
        assert first.held == second.held
        assert first.checks == second.checks
        if first.meeting is not None and second.meeting is not None:
            assert [repr(d) for d in first.meeting.deliveries] == [
                repr(d) for d in second.meeting.deliveries
            ]


@pytest.mark.req("000-WB-08")
@pytest.mark.parametrize("name", NAMES)
def test_a_link_does_what_two_laces_in_one_process_do(name: str) -> None:
    """Same messages, events and stores as the library's own exchange, fault by fault."""
    built = find_scenario(name)
    ours, theirs = World.begin(built), World.begin(built)
    for number, step in enumerate(built.scenario.steps):
        ours.prepare(number)
        theirs.prepare(number)
        if step.interlace is None:
            continue
        if step.faults:
            continue  # faults are the link's own; the stores stay comparable without them
        if step.stay:
            return  # the other one always ends
        link = ours.meet(number).link
        link.run()
        plain = theirs.meet(number).link.sides
        crossed: tuple[list[bytes], list[bytes]] = ([], [])

        def note(side: int, crossing: object, seen: object = crossed) -> list[object]:
            seen[side].append(crossing_bytes(crossing))  # type: ignore[index, arg-type]
            return [crossing]

        interlace(*plain, theirs.now, note)  # type: ignore[arg-type]
        for index in (0, 1):
            told = [e for d in link.deliveries if d.to == index for e in d.events]
            assert told == plain[index].events()
            sent = [x.crossing for d in link.deliveries for x in d.sent if x.sender == index]
            assert [crossing_bytes(crossing) for crossing in sent] == crossed[index]
        for peer in step.interlace:
            assert ours.held(peer) == theirs.held(peer)


def test_other_schedules_reach_the_same_sets() -> None:
    for name in NAMES:
        built = find_scenario(name)
        expected: dict[str, list[str]] | None = None
        for seed in range(6):
            world = World.begin(built)
            for number, step in enumerate(built.scenario.steps):
                world.prepare(number)
                if step.interlace is not None:
                    fate = Fate(step.interlace, step.faults, built)
                    link = world.meet(number, fate, seed).link
                    link.run()
                    if not step.stay:
                        link.end()
                    assert link.over or link.quiet
            held = {peer.id: sorted(world.held(peer.id)) for peer in built.scenario.peers}
            expected = expected or held
            assert held == expected, name


@pytest.mark.parametrize(
    ("deed", "at", "code"),
    [
        ("drop", 2, "interlace.phase"),
        ("drop", 1, "interlace.phase"),
        ("duplicate", 3, "interlace.hello"),
        ("swap", 2, "interlace.phase"),
        ("cut", 2, "interlace.gone"),
        ("flip", 2, "interlace.block"),
    ],
)
def test_what_befalls_a_message_is_seen_and_harms_nothing_stored(
    deed: str, at: int, code: str
) -> None:
    built = find_scenario("notes-room")
    text = scenario_text("notes-room")[1]
    head = text[: text.index("[[step]]")]
    for number in range(1, 20, 1 if at == 2 else 2):
        step = (
            '[[step]]\nsay = "x"\ninterlace = ["bob", "alice"]\n'
            f'fault = [{{ do = "{deed}", from = "bob", message = {number}, byte = 3 }}]\n'
        )
        done = run_scenario(load_scenario(head + step))
        meeting = done.steps[0].meeting
        assert meeting is not None
        assert meeting.link.over
        assert set(done.steps[0].held["bob"]) >= {
            str(built.hash(id)) for id in built.scenario.peer("bob").has
        }
        if number == at:
            assert meeting.outcome == code
        aborted = [
            event
            for index in (0, 1)
            for event in meeting.events(index)
            if isinstance(event, m.Aborted)
        ]
        assert (meeting.outcome is m.Ending.FIXED_POINT) is not bool(aborted)


def test_where_nobody_speaks_any_more_time_runs_out() -> None:
    text = scenario_text("notes-room")[1]
    step = (
        '[[step]]\nsay = "x"\ninterlace = ["bob", "alice"]\nends = "interlace.timeout"\nfault = ['
        '{ do = "drop", from = "bob", message = 3 }, { do = "drop", from = "alice", message = 3 }]\n'
    )
    assert run_scenario(load_scenario(text[: text.index("[[step]]")] + step)).ok


def test_every_form_of_sentence_is_used_by_a_scenario() -> None:
    used = {
        sentence.kind
        for name in NAMES
        for step in find_scenario(name).sentences
        for sentence in step
    }
    assert used == {form.kind for form in FORMS}
