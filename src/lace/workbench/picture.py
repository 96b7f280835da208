"""Pictures of a recording: one exchange as a drawing, and two laces converging as a moving one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lace.errors import Code, UsageError
from lace.limits import WORKBENCH
from lace.workbench.drawing import (
    Box,
    Dot,
    Frame,
    Ink,
    Line,
    Picture,
    Sheet,
    Text,
    fitted,
    text_width,
    wrapped,
)

_SIDES: Final[tuple[Ink, Ink]] = ("left", "right")

Json = dict[str, Any]


@dataclass(slots=True)
class Scene:
    """One exchange of a recording, with what pictures need to know of it."""

    recording: Json
    number: int
    """Counted from 1, as on the page."""
    scene: Json = field(init=False)
    titles: list[str] = field(init=False)
    messages: dict[int, Json] = field(init=False)
    steps: list[int] = field(init=False)
    """The steps that mean something: bare ends of phases are left out."""

    def __post_init__(self) -> None:
        self.scene = self.recording["scenes"][self.number - 1]
        peers = {peer["id"]: peer["title"] for peer in self.recording["scenario"]["peers"]}
        self.titles = [peers[id] for id in self.scene["pair"]]
        self.messages = {one["number"]: one for one in self.scene["messages"]}
        self.steps = [number for number in range(1, len(self.frames)) if self._matters(number)]

    def _matters(self, number: int) -> bool:
        message = self.message(number)
        if message is None or (message["kind"] == "end" and not message["deed"]):
            return bool(self.frames[number]["events"])
        return True

    @property
    def frames(self) -> list[Json]:
        found: list[Json] = self.scene["frames"]
        return found

    @property
    def outcome(self) -> str:
        return str(self.scene["stopped"]["outcome"])

    def message(self, number: int) -> Json | None:
        """Return the message that a step delivered, if it delivered one."""
        return self.messages.get(-1 if (at := self.frames[number]["message"]) is None else at)

    def name(self, hash: str) -> str:
        id = self.recording["records"].get(hash, {}).get("id")
        return str(id) if id else f"{hash[:8]}…"

    def rows(self, step: int, side: int) -> dict[str, str]:
        """Return how each record that a side knows of stands after a step."""
        table = self.recording["tables"][self.frames[step]["tables"][side]]
        return {row["hash"]: row["state"] for row in table}

    @property
    def words(self) -> str:
        a, b = self.titles
        held = [
            sum(state == "have" for state in self.rows(len(self.frames) - 1, side).values())
            for side in (0, 1)
        ]
        return (
            f"{self.recording['scenario']['title']}: {self.scene['say']} "
            f"{a} and {b} end with {self.outcome}; {a} has {held[0]} records, {b} {held[1]}."
        )


def scene_of(recording: Json, number: int | None = None) -> Scene:
    """Return a scene by its number from 1, or the first one in which two meet."""
    scenes = recording["scenes"]
    meet = [scene["number"] + 1 for scene in scenes if scene["pair"] is not None]
    wanted = number if number is not None else next(iter(meet), 0)
    if wanted not in meet:
        there = ", ".join(map(str, meet)) or "none"
        raise UsageError(
            f"nobody meets in scene {wanted}", code=Code.INPUT_KEY,
            hint=f"Scenes in which two meet: {there}.",
        )  # fmt: skip
    return Scene(recording, wanted)


# --- a still picture ---

_ROW: Final = 30
_WIDTH: Final = 760
_LEFT: Final = 150
_RIGHT: Final = _WIDTH - 150
_TOP: Final = 108


def still(scene: Scene) -> Picture:
    """Return an exchange as a drawing: every message, by phase, with what came of it."""
    steps = scene.steps[: WORKBENCH.picture_steps]
    row = {number: index for index, number in enumerate(steps)}
    height = _TOP + len(steps) * _ROW + 56
    sheet = Sheet()
    sheet.put(Box(0, 0, _WIDTH, height, "bg", radius=0))
    title = scene.recording["scenario"]["title"]
    sheet.put(
        Text(24, 34, fitted(title, 19, _WIDTH - 48), 19, bold=True),
        Text(24, 56, fitted(scene.scene["say"], 13, _WIDTH - 48), 13, "muted"),
    )
    for side, x in ((0, _LEFT), (1, _RIGHT)):
        who = fitted(scene.titles[side], 14, 250)
        sheet.put(
            Line(x, _TOP - 12, x, height - 44, "line"),
            Text(x, _TOP - 20, who, 14, _SIDES[side], "middle", bold=True),
        )
    before = ""
    for number in steps:
        y = _TOP + row[number] * _ROW + 10
        before = _phase(sheet, scene, number, y, before)
        _arrow(sheet, scene, number, y)
        _events(sheet, scene, number, y)
    left_out = len(scene.steps) - len(steps)
    good = scene.outcome == "fixed point" and not left_out
    end = f"{left_out} more steps" if left_out else scene.outcome
    ink: Ink = "good" if good else "bad"
    sheet.put(
        Dot(_WIDTH / 2 - text_width(end, 14) / 2 - 14, height - 25, 5, ink),
        Text(_WIDTH / 2, height - 20, end, 14, ink, "middle", bold=True),
    )
    return Picture(_WIDTH, height, tuple(sheet.shapes), scene.words)


def _phase(sheet: Sheet, scene: Scene, number: int, y: float, before: str) -> str:
    frame = scene.frames[number]
    loop = f", loop {frame['loop']}" if frame["loop"] else ""
    phase = f"{frame['before']}{loop}"
    if phase != before:
        sheet.put(
            Line(16, y - 15, _WIDTH - 16, y - 15, "sunken"),
            Text(16, y + 4, phase, 11, "muted"),
        )
    return phase


def _arrow(sheet: Sheet, scene: Scene, number: int, y: float) -> None:
    message = scene.message(number)
    if message is None:
        return
    ends = (_LEFT, _RIGHT) if message["sender"] == 0 else (_RIGHT, _LEFT)
    is_record = message["kind"] == "record"
    ink: Ink = "bad" if message["deed"] else _SIDES[message["sender"]]
    toward = 1 if ends[1] > ends[0] else -1
    sheet.put(
        Line(
            ends[0] + 5 * toward, y + 5, ends[1] - 5 * toward, y + 5, ink,
            2.2 if is_record else 1.2, tip=True,
        ),
        Text(
            _WIDTH / 2, y, fitted(_said(message), 12, _RIGHT - _LEFT - 40), 12, "text", "middle",
            bold=is_record,
        ),
    )  # fmt: skip


def _events(sheet: Sheet, scene: Scene, number: int, y: float) -> None:
    frame = scene.frames[number]
    events = [event for event in frame["events"] if event["kind"] != "Closed"]
    side = frame["to"]
    x = _RIGHT if side else _LEFT
    bad = any(event["kind"] in {"RecordRejected", "Aborted"} for event in events)
    ink: Ink = "bad" if bad else "good"
    sheet.put(Dot(x, y + 5, 5 if events else 3, ink if events else "muted"))
    if events:
        text = _happened(events)
        room = (_WIDTH - x if side else x) - 20
        at = x + 11 if side else x - 11
        sheet.put(Text(at, y + 9, fitted(text, 11, room), 11, ink, "start" if side else "end"))


def _happened(events: list[Json]) -> str:
    words = {
        "RecordSaved": "stored", "RecordDuplicate": "again", "RecordRejected": "rejected",
        "FixedPoint": "fixed point", "Aborted": "aborted",
    }  # fmt: skip
    kinds = [words.get(event["kind"], "") for event in events]
    first = next(filter(None, kinds), "")
    many = sum(kind == first for kind in kinds)
    return first if many == 1 else f"{first} {many}"


_DEEDS: Final = {
    "drop": "lost", "duplicate": "sent twice", "swap": "overtaken", "flip": "damaged",
    "cut": "cut off",
}  # fmt: skip


def _said(message: Json) -> str:
    deed = _DEEDS.get(message["deed"] or "", "")
    return f"{deed}: {message['summary']}" if deed else str(message["summary"])


# --- a moving picture ---

_STAGE: Final = (760, 428)
_LACE: Final = (24, 96, 236)
"""Where the left lace begins, how high, and how wide it is; the right one mirrors it."""
_CHIPS_SHOWN: Final = 8
_CHIP: Final = 30
_FLIGHT: Final = (0.3, 0.65, 1.0)
_FLY_MS: Final = 90
_REST_MS: Final = 340
_STORED_MS: Final = 1000
_END_MS: Final = 3500
_STATES: Final = {
    "advertised": "heard of", "requestable": "wanted", "in flight": "asked for",
    "rejected": "rejected", "have": "",
}  # fmt: skip


def moving(scene: Scene) -> list[Frame]:
    """Return an exchange as frames: what each lace has, and what flies between them."""
    chips = (_chips(scene, 0), _chips(scene, 1))
    steps = scene.steps[: WORKBENCH.picture_steps]
    frames = [Frame(_stage(scene, chips, 0, 0, None), _STORED_MS)]
    for index, number in enumerate(steps):
        share = (index + 1) / len(steps)
        if scene.message(number) is not None:
            before = max(0, number - 1)
            frames += [
                Frame(_stage(scene, chips, before, share, number, at), _FLY_MS) for at in _FLIGHT
            ]
        stored = bool(scene.frames[number]["events"])
        shown = _stage(scene, chips, number, share, number)
        frames.append(Frame(shown, _STORED_MS if stored else _REST_MS))
    last = frames[-1]
    frames[-1] = Frame(last.picture, _END_MS)
    return frames


def _chips(scene: Scene, side: int) -> list[str]:
    """Return the records that a side ever knows of, in the order in which it does."""
    found: dict[str, None] = {}
    for number in range(len(scene.frames)):
        found |= dict.fromkeys(scene.rows(number, side))
    return list(found)


def _stage(
    scene: Scene, chips: tuple[list[str], list[str]], step: int, share: float,
    telling: int | None, flight: float | None = None,
) -> Picture:  # fmt: skip
    """Return both laces after a step; ``telling`` is the step whose message is shown."""
    width, height = _STAGE
    sheet = Sheet()
    title = scene.recording["scenario"]["title"]
    sheet.put(
        Box(0, 0, width, height, "bg", radius=0),
        Text(24, 36, fitted(title, 20, width - 48), 20, bold=True),
        Text(24, 60, fitted(scene.scene["say"], 13, width - 48), 13, "muted"),
    )
    for side in (0, 1):
        sheet.shapes.extend(_lace(scene, chips[side], step, side))
    if telling is not None:
        _flying(sheet, scene, telling, flight)
    frame = scene.frames[telling if flight is None and telling is not None else step]
    for index, line in enumerate(wrapped(frame["sentence"], 13, width - 48, 2)):
        sheet.put(Text(24, height - 40 + 19 * index, line, 13))
    done = step == len(scene.frames) - 1 and flight is None
    bar: Ink = "accent"
    if done:
        bar = "good" if scene.outcome == "fixed point" else "bad"
        sheet.put(Text(width / 2, 250, scene.outcome, 15, bar, "middle", bold=True))
    sheet.put(Box(0, height - 5, round(width * share, 1), 5, bar, radius=0))
    return Picture(width, height, tuple(sheet.shapes), scene.words)


def _lace(scene: Scene, chips: list[str], step: int, side: int) -> Iterator[Box | Text]:
    left, top, width = _LACE
    x = left if side == 0 else _STAGE[0] - left - width
    rows = scene.rows(step, side)
    have = sum(state == "have" for state in rows.values())
    many = "1 record" if have == 1 else f"{have} records"
    high = 46 + _CHIPS_SHOWN * _CHIP
    yield Box(x, top - 14, width, high, "panel", "line", 10)
    room = width - 28 - text_width(many, 12)
    yield Text(x + 12, top + 10, fitted(scene.titles[side], 15, room), 15, _SIDES[side], bold=True)
    yield Text(x + width - 12, top + 10, many, 12, "muted", "end")
    shown = chips if len(chips) <= _CHIPS_SHOWN else chips[: _CHIPS_SHOWN - 1]
    for index, hash in enumerate(shown):
        state = rows.get(hash)
        if state is not None:
            yield from _chip(scene.name(hash), state, x + 10, top + 22 + index * _CHIP, side)
    if len(shown) < len(chips):
        more = sum(hash in rows for hash in chips[len(shown) :])
        y = top + 22 + len(shown) * _CHIP
        yield Text(x + 14, y + 17, f"and {more} more", 12, "muted")


def _chip(name: str, state: str, x: float, y: float, side: int) -> Iterator[Box | Text]:
    width = _LACE[2] - 20
    word = _STATES.get(state, state)
    here = state == "have"
    ink: Ink = "bad" if state == "rejected" else _SIDES[side] if here else "muted"
    fill: Ink = "sunken" if here else "panel"
    yield Box(x, y, width, _CHIP - 5, fill, ink, 6, dashed=not here)
    room = width - 24 - text_width(word, 11)
    yield Text(x + 9, y + 17, fitted(name, 13, room), 13, "text" if here else "muted", bold=here)
    if word:
        yield Text(x + width - 9, y + 17, word, 11, ink, "end")


def _flying(sheet: Sheet, scene: Scene, number: int, flight: float | None) -> None:
    """Draw the message of a step: on its way, or arrived."""
    left, top, width = _LACE
    start, end = left + width + 12, _STAGE[0] - left - width - 12
    phase = str(scene.frames[number]["before"])
    loop = scene.frames[number]["loop"]
    sheet.put(
        Text(_STAGE[0] / 2, top + 10, phase, 13, "muted", "middle"),
        Text(_STAGE[0] / 2, top + 28, f"loop {loop}" if loop else "", 12, "muted", "middle"),
    )
    message = scene.message(number)
    if message is None:
        return
    sender = message["sender"]
    x1, x2 = (start, end) if sender == 0 else (end, start)
    ink: Ink = "bad" if message["deed"] else _SIDES[sender]
    is_record = message["kind"] == "record"
    y = top + 100
    tip = x1 + (x2 - x1) * (1.0 if flight is None else flight)
    sheet.put(Line(x1, y, round(tip, 1), y, ink, 3 if is_record else 1.8, tip=True))
    lines = wrapped(_said(message), 13, end - start + 8, 3)
    for index, line in enumerate(lines):
        at = y - 12 - 17 * (len(lines) - 1 - index)
        sheet.put(Text(_STAGE[0] / 2, at, line, 13, "text", "middle", bold=is_record))
