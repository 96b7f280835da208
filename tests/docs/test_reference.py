"""The reference is whole: every name, predicate, built-in, event and metric of the code is in it."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import lace
import reference_pages
from lace.cli.serve import _LEVEL_OF
from lace.datalog.ast import BUILTINS
from lace.datalog.builtins import MEANINGS
from lace.lake.tally import RUN_METRICS, STREAM_METRICS
from lace.serving.events import EVENTS
from lace.serving.metrics import METRICS
from lace.settings import PeerSettings, Settings
from lace.vocabulary import VOCABULARY

SOURCE = Path(lace.__file__).parent
PLACES = ("serving/server.py", "cli/serve.py", "api/serving.py")


def told(text: str) -> set[str]:
    """Return the events that a source tells: the words of notes, and of objects for the log."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
            if node.func.attr in {"_note", "_ended"}:
                found |= {word for word in words if isinstance(word, str)}
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "event":
                    found |= {str(value.value)} if isinstance(value, ast.Constant) else set()
    return found


def test_every_event_of_a_server_is_explained_and_no_other() -> None:
    told_of = set().union(*(told((SOURCE / place).read_text("utf-8")) for place in PLACES))
    assert told_of == set(EVENTS)
    assert set(_LEVEL_OF) <= set(EVENTS)


def test_an_event_that_nobody_explains_would_be_seen() -> None:
    assert told("self._note('new', 1)\nlog({'event': 'other', 'x': 1})\n") == {"new", "other"}


def test_every_built_in_and_predicate_is_there() -> None:
    page = reference_pages.predicates()
    assert [written.partition("(")[0] for written in MEANINGS] == list(BUILTINS)
    for entry in VOCABULARY:
        assert f"| `{entry}` | " in page
    assert "&lt;" not in page


def test_every_member_of_the_api_says_what_it_is() -> None:
    members = re.findall(r"^\| `(.+)` \| (.*) \|$", reference_pages.python_api(), re.MULTILINE)
    assert len(members) > 400
    assert [name for name, meaning in members if not meaning] == []
    # A default is written as a caller would write it.
    assert [name for name, _ in members if " = _" in name or "field(" in name] == []


def test_code_stands_as_it_is_written_and_what_can_be_made_says_how() -> None:
    page = reference_pages.python_api()
    assert "`base_facts: int = 1 << 24`" in page
    assert "| `addresses: tuple[str, ...]` | Where it can be reached" in page
    made = "`Keyring(path: str \\| Path \\| None=None, passphrase: str \\| None=None)`"
    assert f"| {made} | Stand for the keyring in a file" in page


def test_every_metric_is_there() -> None:
    page = reference_pages.metrics()
    every = [*METRICS, *STREAM_METRICS, *RUN_METRICS]
    assert re.findall(r"^\| `(\w+)`", page, flags=re.MULTILINE) == every


def test_every_public_name_is_there_once_and_says_something() -> None:
    page = reference_pages.python_api()
    entries = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##)", page, flags=re.DOTALL | re.MULTILINE))
    assert set(entries) == set(lace.__all__) - {"__version__"}
    assert len(entries) == page.count("\n### ")
    silent = [name for name, text in entries.items() if not text.partition("\n```\n")[2].strip()]
    assert silent == []


def test_the_page_of_settings_has_every_entry() -> None:
    page = (SOURCE.parents[1] / "docs" / "reference" / "settings.md").read_text("utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    written = tomllib.loads(block)
    top = {field.name for field in fields(Settings)} - {"folder"}
    assert set(written) == top
    assert set(written["peers"]["server"]) == {field.name for field in fields(PeerSettings)}
    # The place of a room stands in select.
    assert set(written["room"]) == {field.name for field in fields(lace.Room)} - {"prefix"}
