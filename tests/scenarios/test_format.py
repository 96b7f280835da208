"""The scenario format: strict, bounded, with places and codes for everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import lace
from hypothesis import given
from hypothesis import strategies as st

from lace.crypto.keys import demo_key
from lace.errors import Diagnostic
from lace.limits import SCENARIO
from lace.scenario.build import load_scenario
from lace.scenario.library import scenario_text
from lace.scenario.model import ScenarioError
from lace.scenario.parse import parse_scenario
from lace.scenario.placeholders import fill
from lace.scenario.run import run_scenario
from scenario_page import EXAMPLE

GOOD = """\
format = "lace-scenario/1"
title = "Two"
story = "They meet."
now = "1700000000:000000000"

[keys]
ann = "ann"

[record.note]
at = "//g//a//n"
by = "ann"
fields = { Title = "x", "+Link" = "re {other}" }

[record.other]
at = "//g//a//o"

[peer.one]
has = ["note", "other"]
rules = "//g//a//"

[peer.two]
rules = '''
SelectHave(P) :- Have(P), Field(P,'Signed-By',_,'{ann}').
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Signed-By',_,'{ann}').
'''

[[step]]
say = "They meet."
interlace = ["one", "two"]
expect = [
  "two has only note",
  "two receives 1 record",
]
"""


def problems(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(text)
    return caught.value.diagnostics


def test_the_example_of_the_reference_page_runs() -> None:
    assert run_scenario(load_scenario(EXAMPLE)).ok


def test_the_good_one_is_good() -> None:
    assert run_scenario(load_scenario(GOOD)).ok


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ('title = "Two"', "title = Two", "scenario.toml", 2),
        ('story = "They meet."', 'story = "They meet."\ntitel = "Two"', "scenario.key", 4),
        ('title = "Two"', "title = 2", "scenario.key", 2),
        ('title = "Two"', 'title = ""', "scenario.value", 2),
        ('format = "lace-scenario/1"', 'format = "lace-scenario/9"', "scenario.value", 1),
        ("1700000000:000000000", "yesterday", "tai.malformed", 4),
        ('ann = "ann"', "ann = 7", "scenario.key", 7),
        ('ann = "ann"', 'ann = "ann"\nAnn = "x"', "scenario.name", 8),
        ("[record.note]", "[record.ann]", "scenario.name", 9),
        ('"//g//a//n"', '"//g//a//"', "scenario.value", 10),
        ('"//g//a//n"', '"/g"', "urc.form", 10),
        ('by = "ann"', 'by = "bob"', "scenario.reference", 11),
        ("re {other}", "re {nothing}", "scenario.reference", 12),
        ("re {other}", "re {note}", "scenario.reference", 9),
        ('Title = "x"', 'Title = ""', "text.empty", 12),
        ('Title = "x"', 'Group = "x"', "record.header-reserved", 9),
        ('has = ["note", "other"]', 'has = ["note", "more"]', "scenario.reference", 18),
        ('rules = "//g//a//"', 'rules = "shared"', "scenario.reference", 19),
        ('rules = "//g//a//"', 'rules = "//g"', "policy.selector", 19),
        ('rules = "//g//a//"', 'rules = "//g//a//"\nexpose = "some"', "scenario.value", 20),
        ('"one", "two"]', '"one", "one"]', "scenario.value", 29),
        ('"one", "two"]', '"one", "three"]', "scenario.reference", 29),
        ('interlace = ["one", "two"]', 'ends = "interlace.gone"', "scenario.value", 29),
        ('interlace = ["one", "two"]', 'interlace = ["one", "two"]\nends = "soon"', "scenario.value", 30),
        ("two has only note", "two holds note", "scenario.expectation", 31),
        ("two has only note", "six has only note", "scenario.expectation", 31),
        ("two receives 1 record", "two has novel", "scenario.expectation", 32),
        ("two receives 1 record", "two rejects note with bad.code", "scenario.expectation", 32),
        ("two receives 1 record", "two withholds note because of rain", "scenario.expectation", 32),
        ("two receives 1 record", "two derives Member(", "scenario.expectation", 32),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_code_and_a_line(old: str, new: str, code: str, line: int) -> None:
    assert GOOD.count(old) == 1
    found = problems(GOOD.replace(old, new))
    assert (str(found[0].code), found[0].line) == (code, line), found
    assert all(problem.hint for problem in found)


@pytest.mark.req("000-WB-09")
def test_a_fault_in_rules_points_into_the_text_its_author_wrote() -> None:
    text = GOOD.replace("_,'{ann}').\nSelectAdv", "_,'{ann}'), Nmae(P).\nSelectAdv")
    ok = load_scenario(text)  # an unknown predicate is a warning, not an error
    assert set(ok.modules) == {"one", "two"}
    text = GOOD.replace("_,'{ann}').\nSelectAdv", "_,'{ann}'), X = P.\nSelectAdv")
    (found,) = problems(text)
    assert str(found.code) == "lacegram.equality"
    assert text.split("\n")[found.line - 1][found.column - 1 :] == "= P."


@pytest.mark.parametrize(
    "fault",
    [
        '{ do = "melt", from = "one", message = 1 }',
        '{ do = "drop", from = "six", message = 1 }',
        '{ do = "drop", from = "one" }',
        '{ do = "drop", from = "one", message = 1, record = "note" }',
        '{ do = "drop", from = "one", message = -4 }',
        '{ do = "drop", from = "one", message = 1, colour = "red" }',
        '"drop"',
    ],
)
def test_faults_are_held_to_the_format(fault: str) -> None:
    text = GOOD.replace('["one", "two"]', f'["one", "two"]\nfault = [{fault}]')
    assert str(problems(text)[0].code).startswith("scenario.")


def test_everything_wrong_is_said_at_once() -> None:
    text = GOOD.replace('title = "Two"', "title = 2").replace('by = "ann"', 'by = "bob"')
    assert [str(p.code) for p in problems(text)] == ["scenario.key", "scenario.reference"]


def test_real_secrets_are_refused_and_not_repeated() -> None:
    secret = demo_key("anything").reveal()
    text = GOOD.replace('ann = "ann"', f'ann = "{secret}"')
    (found,) = problems(text)
    assert (str(found.code), found.line) == ("scenario.secret", 7)
    assert secret not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n" * 50_000,
        GOOD + "".join(f'\n[record.r{i}]\nat = "//g//a//{i}"' for i in range(SCENARIO.records)),
        GOOD + "".join(f'\n[peer.p{i}]\nrules = "//g//a//"' for i in range(SCENARIO.peers)),
        GOOD + '\n[[step]]\nsay = "x"' * SCENARIO.steps,
        GOOD.replace(
            '"//g//a//o"', '"//g//a//o"\ndata = "' + "x" * (SCENARIO.data_bytes + 1) + '"'
        ),
        GOOD.replace('"two has only note",', '"two has only note",' * (SCENARIO.expectations + 1)),
    ],
    ids=["bytes", "records", "peers", "steps", "data", "expectations"],
)
def test_scenarios_stay_small(text: str) -> None:
    assert any(str(p.code) == "scenario.limit" for p in problems(text))


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    parsed = parse_scenario(text)
    assert parsed.scenario is None
    assert parsed.diagnostics


@given(st.integers(0, len(GOOD) - 1), st.text(max_size=3))
def test_no_damage_makes_the_reader_fail(at: int, put: str) -> None:
    parsed = parse_scenario(GOOD[:at] + put + GOOD[at + 1 :])
    assert (parsed.scenario is None) == bool(parsed.diagnostics)


def test_columns_are_found_again_behind_filled_in_names() -> None:
    filled = fill("a {x} b {x} c\n{y} {x}", {"x": "12345678"})
    assert filled.text == "a 12345678 b 12345678 c\n{y} 12345678"
    assert filled.unknown == ("y",)
    assert [filled.authored_column(1, column) for column in (1, 3, 7, 12, 14, 23)] == [
        1, 3, 3, 7, 9, 13,
    ]  # fmt: skip
    assert filled.authored_column(2, 5) == 5


def test_the_commands_tell_list_and_test(tmp_path: Path) -> None:
    done = lace("scenario", "list")
    assert done.returncode == 0
    assert b'"name":"notes-room"' in done.stdout
    done = lace("scenario", "run", "notes-room")
    assert done.returncode == 0
    assert b'"outcome":"fixed point"' in done.stdout
    done = lace("scenario", "test")
    assert (done.returncode, done.stdout.count(b'"ok":true')) == (0, 11)
    broken = tmp_path / "mine.toml"
    broken.write_text(GOOD.replace("two has only note", "two has only other"))
    done = lace("scenario", "test", broken)
    assert done.returncode == 1
    assert b'"detail":"has note"' in done.stdout
    assert b'"line":31' in done.stdout
    broken.write_text(GOOD.replace('title = "Two"', "title = 2"))
    done = lace("scenario", "run", broken)
    assert done.returncode == 1
    assert b"mine.toml:2:1: error: title: takes text [scenario.key]" in done.stderr
    done = lace("scenario", "run", "note-room")
    assert done.returncode == 2
    assert b"Did you mean notes-room?" in done.stderr


def test_two_processes_with_other_hash_seeds_print_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = set()
    for seed in ("1", "2", "3"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        outputs.add(lace("scenario", "run", "approval-workflow").stdout)
    assert len(outputs) == 1


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert b"input.file" in lace("scenario", "run", tmp_path / "none.toml").stderr
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    assert b"text.utf8" in lace("scenario", "run", bad).stderr
    name, text = scenario_text("cache-fill")
    assert (name, text.startswith("format")) == ("cache-fill", True)
