"""From a scenario back to TOML, in one layout; reading it again gives the same scenario."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from lace.interlace.messages import Ending
from lace.scenario.model import FORMAT, Fault, PeerSpec, RecordSpec, Scenario, Step

_WIDTH = 100
# What cannot be seen, and what makes other text look as if it stood elsewhere.
_UNSEEN = r"\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f"
_ESCAPED = re.compile(rf"[\x7f-\x9f{_UNSEEN}]")
_NO_BLOCK = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_UNSEEN}]")


def write_scenario(scenario: Scenario) -> str:
    """Return the TOML text of a scenario."""
    blocks = ["\n".join(_head(scenario))]
    if scenario.keys:
        blocks.append("\n".join(["[keys]", *(f"{id} = {_text(w)}" for id, w in scenario.keys)]))
    blocks += ["\n".join(_record(record)) for record in scenario.records]
    if scenario.rules:
        blocks.append("\n".join(["[rules]", *(f"{id} = {_block(t)}" for id, t in scenario.rules)]))
    blocks += ["\n".join(_peer(peer)) for peer in scenario.peers]
    blocks += ["\n".join(_step(step)) for step in scenario.steps]
    return "\n\n".join(blocks) + "\n"


def _head(scenario: Scenario) -> Iterator[str]:
    yield f"format = {_text(FORMAT)}"
    yield f"title = {_text(scenario.title)}"
    yield f"story = {_block(scenario.story + chr(10))}"
    yield f"now = {_text(scenario.now)}"
    if scenario.columns:
        yield f"columns = {_list(scenario.columns)}"


def _record(record: RecordSpec) -> Iterator[str]:
    yield f"[record.{record.id}]"
    yield f"at = {_text(record.at)}"
    if record.by is not None:
        yield f"by = {_text(record.by)}"
    if record.tai is not None:
        yield f"tai = {_text(record.tai)}"
    if record.fields:
        values: dict[str, list[str]] = {}
        for name, value in record.fields:
            values.setdefault(name, []).append(value)
        entries = (
            f"{_key(name)} = {_text(found[0]) if len(found) == 1 else _list(found)}"
            for name, found in values.items()
        )
        yield f"fields = {{ {', '.join(entries)} }}"
    if record.data:
        yield f"data = {_block(record.data)}"


def _peer(peer: PeerSpec) -> Iterator[str]:
    yield f"[peer.{peer.id}]"
    yield f"title = {_text(peer.title)}"
    if peer.key is not None:
        yield f"key = {_text(peer.key)}"
    if peer.has:
        yield f"has = {_list(peer.has)}"
    yield f"rules = {_block(peer.rules)}"
    if peer.expose != ("selected",):
        single = len(peer.expose) == 1
        yield f"expose = {_block(peer.expose[0]) if single else _list(peer.expose)}"


def _step(step: Step) -> Iterator[str]:
    yield "[[step]]"
    yield f"say = {_text(step.say)}"
    if step.advance:
        yield f"advance = {step.advance}"
    for word, moved in (("store", step.store), ("forget", step.forget)):
        if moved:
            entries = ", ".join(f"{peer} = {_list(names)}" for peer, names in moved)
            yield f"{word} = {{ {entries} }}"
    if step.interlace is not None:
        yield f"interlace = {_list(step.interlace)}"
    if step.stay:
        yield "stay = true"
    if step.faults:
        yield f"fault = [{', '.join(map(_fault, step.faults))}]"
    if step.ends is not Ending.FIXED_POINT:
        yield f"ends = {_text(step.ends)}"
    if step.expect:
        yield f"expect = {_list([expectation.text for expectation in step.expect])}"
    if step.rules:  # last: a table of its own takes in everything that follows
        yield ""
        yield "[step.rules]"
        yield from (f"{peer} = {_block(text)}" for peer, text in step.rules)


def _fault(fault: Fault) -> str:
    where = f"record = {_text(fault.record)}" if fault.record else f"message = {fault.message or 1}"
    byte = f", byte = {fault.byte}" if fault.byte != -1 else ""
    return f"{{ do = {_text(fault.do)}, from = {_text(fault.sender)}, {where}{byte} }}"


def _text(value: str) -> str:
    # JSON's escapes are a part of TOML's. TOML alone wants DEL escaped; a terminal into which the
    # text is pasted might obey the controls after it, and whoever reads the text first is to see
    # all of it where it stands.
    written = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\U{ord(found[0]):08X}", written)


def _block(value: str) -> str:
    if "\n" not in value or "'''" in value or value.endswith("'") or _NO_BLOCK.search(value):
        return _text(value)
    return f"'''\n{value}'''"


def _list(values: Iterable[str]) -> str:
    items = [_text(value) for value in values]
    line = f"[{', '.join(items)}]"
    if len(line) <= _WIDTH - 10:
        return line
    return "[\n" + "".join(f"  {item},\n" for item in items) + "]"


def _key(name: str) -> str:
    plain = name.replace("-", "").replace("_", "")
    return name if plain.isascii() and plain.isalnum() else _text(name)
