"""The session: commands in, messages out; nothing that is sent to it makes it fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command import lace_inside
from hypothesis import given
from hypothesis import strategies as st

from lace.crypto.keys import demo_key
from lace.driving.journal import replay
from lace.interlace import messages as m
from lace.scenario.build import load_scenario
from lace.scenario.library import find_scenario, library, scenario_text
from lace.scenario.run import World, run_scenario
from lace.scenario.write import write_scenario
from lace.workbench.recording import record_run
from lace.workbench.session import Session
from record_first import stale

ROOM = "notes-room"


@pytest.fixture
def session() -> Session:
    made = Session()
    made.handle({"do": "open", "name": ROOM})
    return made


def only(answers: list[dict[str, Any]]) -> dict[str, Any]:
    (answer,) = answers
    json.dumps(answer)  # whatever is said can be sent
    return answer


def run(session: Session, **more: Any) -> dict[str, Any]:
    toml = write_scenario(find_scenario(ROOM).scenario)
    return only(session.handle({"do": "run", "name": ROOM, "toml": toml, **more}))


def held(recording: dict[str, Any], scene: int, side: int) -> dict[str, str]:
    frame = recording["scenes"][scene]["frames"][-1]
    rows = recording["tables"][frame["tables"][side]]
    return {recording["records"][row["hash"]]["id"]: row["state"] for row in rows}


@pytest.mark.req("000-WB-01")
def test_hello_lists_every_scenario() -> None:
    answer = only(Session().handle({"do": "hello", "id": 7}))
    assert [one["name"] for one in answer["scenarios"]] == list(library())
    assert answer["id"] == 7


def test_the_recording_that_is_shown_first_is_up_to_date() -> None:
    assert stale() == {}, "run make docs"


@pytest.mark.req("000-WB-08")
@pytest.mark.parametrize("name", library())
def test_a_recording_says_what_a_run_of_the_library_does(name: str) -> None:
    """Same hashes, same plan, same messages, same events, same verdicts."""
    built = find_scenario(name)
    recording = record_run(built)
    done = run_scenario(built)
    for scene, step in zip(recording["scenes"], done.steps, strict=True):
        assert scene["after"] == step.held
        assert [check["ok"] for check in scene["checks"]] == [check.ok for check in step.checks]
        if step.meeting is None:
            continue
        deliveries = step.meeting.deliveries
        assert len(scene["frames"]) == len(deliveries) + 1
        sent = [message for delivery in deliveries for message in delivery.sent]
        assert len(scene["messages"]) == len(sent)
        for shown, message in zip(scene["messages"], sent, strict=True):
            if isinstance(message.crossing, m.PeerFacts):
                assert (
                    "".join(f"{line}\n" for line in shown["lines"])
                    == message.crossing.content.decode()
                )
        end = step.meeting.end(0)
        assert end is not None
        assert scene["plan"]["id"] == end.result.plan


@pytest.mark.req(
    "000-WB-03",
    "000-WB-04",
    "000-WB-05",
    "000-WB-07",
    "000-NOT-09",
    "000-REC-01",
    "000-REC-02",
    "000-REC-03",
)
def test_a_recording_has_records_rules_advertisements_and_convergence(session: Session) -> None:
    recording = only(session.handle({"do": "open", "name": ROOM}))["recording"]
    table = {
        record["id"]: {name: value for name, _, value in record["fields"]}
        for record in recording["records"].values()
    }
    assert recording["scenario"]["columns"] == ["Name", "Signed-By", "Member", "Role", "Title"]
    assert table["grant-bob"]["Role"] == "writer"
    assert "Member" not in table["bob-note"]  # a missing field stays blank
    assert "Data" not in table["bob-note"]
    texts = [record["data"] for record in recording["records"].values()]
    assert "Bob's first selected note." in texts
    assert all(peer["checked"]["ok"] for peer in recording["scenario"]["peers"])
    said = [message["summary"] for message in recording["scenes"][0]["messages"]]
    assert any(text.startswith("advertises") for text in said)
    stopped = recording["scenes"][0]["stopped"]
    assert (stopped["outcome"], stopped["sides"][1]["loops"]) == ("fixed point", 3)


@pytest.mark.req("000-WB-09")
def test_other_rules_give_another_result_and_bad_ones_are_explained(session: Session) -> None:
    text = dict(find_scenario(ROOM).scenario.rules)["room"]
    grants = text[: text.index('#:json {"label": "Notes by members')]
    answer = run(session, rules={"bob": grants})
    assert "bob-note" not in held(answer["recording"], 0, 1)
    answer = run(session, rules={"bob": text + "\nX(Y) :- Z.\n"})
    assert answer["type"] == "problems"
    assert answer["diagnostics"][0]["hint"]
    checked = only(session.handle({"do": "check", "text": grants}))["checked"]
    assert (checked["ok"], len(checked["rules"])) == (True, 3)
    assert checked["rules"][0]["id"].startswith("U.")
    checked = only(
        session.handle(
            {
                "do": "check",
                "text": "SelectHave(P) :- Have(P), Field(P,'Signed-By',_,'{bob}'), X = P.",
            }
        )
    )["checked"]
    (problem,) = checked["diagnostics"]
    assert (problem["code"], problem["column"]) == ("lacegram.equality", 61)
    assert only(session.handle({"do": "check", "text": "//notes-demo//notes//"}))["checked"]["ok"]
    assert not only(session.handle({"do": "check", "text": "//nowhere"}))["checked"]["ok"]
    unknown = only(
        session.handle({"do": "check", "text": text.replace("{authority}", "{nobody}")})
    )["checked"]
    assert unknown["diagnostics"][0]["message"] == "{nobody} stands for nothing"


@pytest.mark.req("000-WB-06")
def test_a_flipped_byte_is_refused(session: Session) -> None:
    hash = find_scenario(ROOM).hash("bob-note")
    good = only(session.handle({"do": "inspect", "hash": hash}))["inspection"]
    assert good["ok"]
    assert (
        "".join(part["text"] for part in good["parts"] if part["part"] == "data")
        == "Bob's first selected note."
    )
    assert [part["start"] for part in good["parts"]] == [
        0,
        *(part["end"] for part in good["parts"]),
    ][:-1]
    for offset in range(0, good["size"], 7):
        bad = only(session.handle({"do": "inspect", "hash": hash, "flip": offset}))["inspection"]
        assert not bad["ok"]
        assert bad["facts"] == []
        assert any(not check["ok"] for check in bad["checks"])


def test_changes_befall_what_they_name(session: Session) -> None:
    fault = {
        "scene": 0,
        "do": "flip",
        "sender": "bob",
        "record": "bob-note",
        "message": None,
        "byte": -2,
    }
    answer = run(session, changes={"faults": [fault]})
    assert held(answer["recording"], 0, 1)["bob-note"] == "rejected"
    assert answer["recording"]["changes"]["faults"] == [fault]
    shared = only(session.handle({"do": "share"}))
    again = run_scenario(load_scenario(shared["toml"], ROOM))
    assert [check.text for check in again.checks if not check.ok] == [
        "alice has grant-alice, grant-bob, alice-note, bob-note",
        "alice receives bob-note in loop 2",
        "alice receives nothing",
        "the exchange takes 1 loop",
    ]
    for deed in ("drop", "duplicate", "swap", "cut"):
        answer = run(session, changes={"faults": [fault | {"do": deed}]})
        assert answer["type"] == "recording"
    answer = run(session, changes={"seed": 5, "watched": ["alice has bob-note", "alice sings"]})
    checks = [check for check in answer["recording"]["scenes"][0]["checks"] if check.get("watch")]
    assert [check["ok"] for check in checks] == [True, False]
    assert "is not understood" in checks[1]["detail"]
    assert checks[0]["since"] > 0


def test_orders_in_the_middle_of_an_exchange() -> None:
    session = Session()
    name, text = scenario_text("embargo")
    session.handle({"do": "open", "name": name})
    command = {"do": "run", "name": name, "toml": text}
    order = {"scene": 0, "step": 10_000, "do": "tick", "seconds": 3700}
    answer = only(session.handle(command | {"changes": {"orders": [order]}}))
    assert held(answer["recording"], 0, 1) == {"menu": "have", "statement": "have"}
    grants = "SelectHave(P) :- Have(P), Field(P,'Name',_,'lunch-menu').\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Name',_,'x').\n"
    order = {"scene": 0, "step": 3, "do": "rules", "peer": "newsroom", "text": grants}
    answer = only(session.handle(command | {"changes": {"orders": [order]}}))
    assert held(answer["recording"], 0, 1) == {"menu": "advertised"}
    order = {"scene": 0, "step": 12, "do": "close", "peer": "newsroom"}
    answer = only(session.handle(command | {"changes": {"orders": [order]}}))
    assert answer["recording"]["scenes"][0]["stopped"]["outcome"] != "fixed point"


def test_journals_can_be_run_again(session: Session) -> None:
    answer = only(session.handle({"do": "journal", "scene": 0}))
    for text in answer["sides"]:
        steps, difference = replay(text.splitlines())
        assert steps > 20
        assert difference is None
    assert only(session.handle({"do": "journal", "scene": 9}))["type"] == "problem"


def test_explanations_are_those_of_the_side_they_are_about() -> None:
    """Nothing that is computed for Alice speaks of what Bob hides from her."""
    recording = record_run(find_scenario("bait-attack"))
    diary = find_scenario("bait-attack").hash("diary")
    scene = recording["scenes"][0]
    for frame in scene["frames"]:
        number = frame["policies"][1]
        if number is not None:
            assert diary not in json.dumps(recording["policies"][number])
        assert diary not in json.dumps(recording["tables"][frame["tables"][1]])
    assert all(diary not in json.dumps(entry) for entry in scene["ledger"] if entry["side"] == 1)


def test_real_secrets_are_refused(session: Session) -> None:
    secret = demo_key("real").reveal()
    toml = write_scenario(find_scenario(ROOM).scenario).replace(
        'mallory = "mallory"', f'mallory = "{secret}"'
    )
    answer = run(session, toml=toml)
    assert answer["diagnostics"][0]["code"] == "scenario.secret"
    assert secret not in json.dumps(answer)


@pytest.mark.parametrize(
    "command",
    [
        None, [], "open", {"do": 1}, {"do": "fly"}, {"do": "open"}, {"do": "open", "name": "nothing"},
        {"do": "open", "name": "../../etc/passwd"}, {"do": "check"}, {"do": "check", "text": "x" * 10**6},
        {"do": "inspect", "hash": "S.x"}, {"do": "run", "name": "x", "toml": "x ="},
        {"do": "journal", "scene": True}, {"do": "journal", "scene": -1},
    ],
)  # fmt: skip
def test_commands_that_cannot_be_done_come_back_as_problems(
    session: Session, command: object
) -> None:
    answer = only(session.handle(command))
    assert answer["type"] in {"problem", "problems"}


@pytest.mark.parametrize(
    "changes",
    [
        7, {"seed": -1}, {"seed": True}, {"watched": 3}, {"watched": [""]}, {"watched": ["x"] * 99}, {"faults": {}},
        {"faults": ["x"]}, {"faults": [{"scene": 9}]}, {"faults": [{"scene": 0, "do": "melt"}]},
        {"faults": [{"scene": 0, "do": "drop", "sender": "eve"}]},
        {"faults": [{"scene": 0, "do": "drop", "sender": "bob"}]},
        {"faults": [{"scene": 0, "do": "drop", "sender": "bob", "record": "x"}]},
        {"faults": [{"scene": 0, "do": "drop", "sender": "bob", "message": 0}]},
        {"faults": [{"scene": 0, "do": "drop", "sender": "bob", "message": 1, "byte": "x"}]},
        {"orders": 1}, {"orders": ["x"]}, {"orders": [{"scene": 0}]}, {"orders": [{"scene": 0, "step": 1, "do": "fly"}]},
        {"orders": [{"scene": 0, "step": 1, "do": "tick"}]}, {"orders": [{"scene": 0, "step": 1, "do": "rules", "peer": "eve"}]},
        {"orders": [{"scene": 0, "step": 1, "do": "rules", "peer": "bob", "text": "x"}]},
    ],
)  # fmt: skip
def test_changes_that_make_no_sense_are_refused(session: Session, changes: object) -> None:
    assert run(session, changes=changes)["type"] == "problem"


def test_rules_without_end_are_stopped_by_a_limit(session: Session) -> None:
    """Something with millions of answers ends as a message, not as a page that hangs."""
    grow = (
        "".join(f"A{i}(X) :- Have(X).\n" for i in range(3))
        + "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    pairs = (
        "Pair("
        + ",".join(f"X{i}" for i in range(9))
        + ") :- "
        + ", ".join(f"Field(X{i},_,_,_)" for i in range(9))
        + ".\nSelectHave(P) :- Pair(P,"
        + ",".join("_" * 8)
        + ").\n"
    )
    answer = run(session, rules={"bob": grow + pairs})
    assert answer["type"] == "recording"
    assert answer["recording"]["scenes"][0]["stopped"]["outcome"] == "lacegram.cost"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["do", "name", "toml", "changes", "scene", "flip", "hash"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(
    command=json_values,
    do=st.sampled_from(["hello", "open", "run", "check", "inspect", "share", "journal"]),
)
def test_no_command_makes_a_session_fail(command: object, do: str) -> None:
    session = Session()
    whole = command | {"do": do} if isinstance(command, dict) else command
    for answer in session.handle(whole):
        json.dumps(answer)


def test_equal_recordings_for_equal_worlds() -> None:
    built = find_scenario("revocation")
    assert record_run(built) == record_run(built)
    World.begin(built)


def test_a_scenario_is_judged_as_text_and_keeps_its_authors_words(session: Session) -> None:
    text = scenario_text(ROOM)[1] + "# the end\n"
    assert only(session.handle({"do": "judge", "toml": text}))["diagnostics"] == []
    wrong = text.replace('has = ["alice-note"]', 'has = ["nothing"]')
    (found,) = only(session.handle({"do": "judge", "toml": wrong}))["diagnostics"]
    assert (found["code"], found["line"]) == (
        "scenario.reference",
        wrong[: wrong.index('"nothing"')].count("\n") + 1,
    )
    assert only(session.handle({"do": "judge", "toml": 7}))["type"] == "problem"
    ran = only(session.handle({"do": "run", "name": ROOM, "toml": text}))
    assert ran["recording"]["scenario"]["toml"] == text
    assert only(session.handle({"do": "share"}))["toml"] == text


@pytest.mark.parametrize(
    "changes",
    [
        {"faults": [{"scene": 0, "do": "duplicate", "sender": "bob", "record": "chat"}]},
        {"orders": [{"scene": 0, "step": 12, "do": "tick", "seconds": 30}]},
        {"seed": 3},
    ],
)
def test_what_was_changed_is_changed_in_the_run_to_compare_with_too(
    changes: dict[str, Any],
) -> None:
    session = Session()
    name, text = scenario_text("bait-attack")
    answer = only(session.handle({"do": "run", "name": name, "toml": text, "changes": changes}))
    scene = answer["recording"]["scenes"][0]
    sentences = {c["text"]: c for c in scene["checks"] if "never learns" in c["text"]}
    assert len(sentences) == 2
    assert all(c["ok"] for c in sentences.values()), sentences
    assert scene["audits"][0]["compared"]["ok"]
    carl = answer["recording"]["scenes"][1]["audits"][0]
    assert not carl["holds"]
    assert carl["compared"]["text"].startswith("without carls-diary, message")


def test_a_run_is_given_away_as_one_page(session: Session) -> None:
    page = only(session.handle({"do": "page"}))
    assert page["type"] == "page"
    for name in ("index", ROOM):
        assert f'<script type="application/json" id="recording-{name}">' in page["html"]
    assert only(Session().handle({"do": "page"}))["type"] == "problem"  # nothing is open


def test_links_lead_where_the_workbench_was_told() -> None:
    hello = only(Session(links="https://example.com/").handle({"do": "hello"}))
    assert hello["links"] == "https://example.com/"


@pytest.mark.parametrize(
    "links", ["javascript:alert(1)", "example.com", 'https://a/"><script>', "https://a/#z"]
)
def test_links_lead_to_pages_alone(links: str) -> None:
    done = lace_inside("workbench", "--links-to", links)
    assert done.returncode != 0
    assert b"is no address of a page" in done.stderr
