"""Draws two laces that converge as an SVG that moves: every act comes from a run of the engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from drawing import BLUE, GOLD, GREEN, RED, SOFT, Picture
from record_first import recording

SECONDS_AN_ACT = 2.6
_LEFT, _RIGHT, _WIDE, _CHIP, _ROW, _TOP = 24, 516, 220, 196, 30, 74


@dataclass
class Act:
    """What both sides say in one phase, and the records that cross in it."""

    phase: str
    sayings: list[str] = field(default_factory=list)
    records: list[tuple[int, str]] = field(default_factory=list)
    """The side that each record goes to, and its hash."""


def acts(scene: dict[str, Any], names: list[str]) -> list[Act]:
    """Return the acts of a recorded exchange; a phase in which nobody says anything is none."""
    found: list[Act] = []
    last = None
    for message in scene["messages"]:
        if message["kind"] == "end":
            continue
        if (here := (message["phase"], message["loop"])) != last:
            found.append(Act(message["phase"]))
            last = here
        if message["record"]:
            found[-1].records.append((1 - message["sender"], message["record"]))
        else:
            found[-1].sayings.append(f"{names[message['sender']]} {message['summary']}")
    return found


def caption(act: Act, ids: dict[str, str], names: list[str]) -> list[str]:
    """Say in one or two lines what happens in an act."""
    if act.phase == "setup":
        return ["Each says by which rules it goes."]
    if act.phase == "hello":
        return ["Both find the same plan, and prove who they are."]
    if act.records:
        return [
            f"{names[side]} gets {', '.join(ids[h] for to, h in act.records if to == side)}, "
            "and validates every byte."
            for side in (0, 1)
            if any(to == side for to, _ in act.records)
        ]
    return [_plainly(saying) for saying in act.sayings]


def _plainly(saying: str) -> str:
    """Say without words of the protocol what a message is for."""
    name, _, rest = saying.partition(" ")
    if rest.startswith("sums up "):
        return f"{name} sends digests of what it could give."
    if rest.startswith("asks to "):
        return f"{name} asks about the part that differs."
    return f"{saying}."


def converge() -> str:
    """Draw the first exchange of the notes room."""
    made = json.loads(recording())
    scene = made["scenes"][0]
    titles = {peer["id"]: peer["title"] for peer in made["scenario"]["peers"]}
    names = [titles[id] for id in scene["pair"]]
    ids = {hash: record["id"] for hash, record in made["records"].items()}
    played = acts(scene, names)
    lines = [
        ["Two laces with the same rules, and different records."],
        *(caption(act, ids, names) for act in played),
        ["Nothing is left that one could ask for and the other may give: the fixed point."],
    ]
    count = len(lines)
    picture = Picture(760, 356, "Two laces exchange records until nothing is left to exchange")
    rules = [_shown(number, count) for number in range(count)]
    places: dict[tuple[int, str], tuple[float, float]] = {}
    for side, peer in enumerate(scene["pair"]):
        x = _RIGHT if side == 0 else _LEFT
        picture.box(x, 24, _WIDE, 250, fill=BLUE)
        picture.text(x + 12, 48, f"{names[side]}'s lace", size=15, bold=True)
        for row, hash in enumerate(scene["after"][peer]):
            places[side, hash] = (x + 12, _TOP + row * _ROW)
    crossed = {hash: (side, n) for n, act in enumerate(played, 1) for side, hash in act.records}
    for (side, hash), (to_x, to_y) in places.items():
        if hash in scene["before"][scene["pair"][side]]:
            stays = hash not in crossed
            _chip(picture, to_x, to_y, ids[hash], fill=RED if stays else GREEN)
            continue
        from_x, from_y = places[1 - side, hash]
        act = crossed[hash][1]
        name = f"r{side}{len(rules)}"
        rules.append(_arrives(name, act, count, from_x - to_x, from_y - to_y))
        picture.raw(f'<g class="{name}">')
        _chip(picture, to_x, to_y, ids[hash], fill=GREEN)
        picture.raw("</g>")
    for number, (act_or_none, said) in enumerate(zip([None, *played, None], lines, strict=True)):
        picture.raw(f'<g class="a{number}">')
        for row, line in enumerate(said):
            picture.text(380, 304 + 20 * row, line, size=14, at="middle")
        _arrows(picture, act_or_none, names)
        picture.raw("</g>")
    picture.text(
        380, 348, "red: no member signed it, so no rule selects it, and nobody hears of it",
        size=11, at="middle", colour=SOFT,
    )  # fmt: skip
    still = "@media (prefers-reduced-motion:reduce){" + (
        "".join(f".a{n}{{animation:none;opacity:{int(n == count - 1)}}}" for n in range(count))
        + "[class^=r]{animation:none}}"
    )
    picture.style = "".join([*rules, still])
    return picture.svg()


def _chip(picture: Picture, x: float, y: float, name: str, *, fill: str) -> None:
    picture.box(x, y, _CHIP, 24, fill=fill)
    picture.text(x + 10, y + 16, name, size=12, mono=True)


def _arrows(picture: Picture, act: Act | None, names: list[str]) -> None:
    """Show who speaks in an act: an arrow in the middle, with the phase above it."""
    if act is None:
        return
    picture.label(320, 92, 120, 28, act.phase, fill=GOLD)
    both = act.phase in {"setup", "hello"}
    speak = {1 - side for side, _ in act.records}
    speak |= {side for side in (0, 1) if any(s.startswith(names[side]) for s in act.sayings)}
    if both or 1 in speak:
        picture.arrow("M258 150 H502")
    if both or 0 in speak:
        picture.arrow("M502 174 H258")


def _percent(part: float) -> str:
    return f"{100 * part:.2f}%"


def _shown(number: int, count: int) -> str:
    """Return a style that shows the class ``a{number}`` during one act."""
    begin, end = number / count, (number + 1) / count
    edge = 0.08 / count
    return (
        f"@keyframes a{number}{{0%,{_percent(max(0, begin - 1e-4))}{{opacity:0}}"
        f"{_percent(begin + edge)},{_percent(end - edge)}{{opacity:1}}"
        f"{_percent(end)},100%{{opacity:0}}}}"
        f".a{number}{{animation:a{number} {count * SECONDS_AN_ACT:g}s linear infinite}}"
    )


def _arrives(name: str, act: int, count: int, x: float, y: float) -> str:
    """Return a style with which something crosses from elsewhere in one act, and then stays."""
    begin, end = act / count, (act + 0.6) / count
    away = f"translate({x:g}px,{y:g}px)"
    return (
        f"@keyframes {name}{{0%,{_percent(begin - 1e-4)}{{opacity:0;transform:{away}}}"
        f"{_percent(begin)}{{opacity:1;transform:{away}}}"
        f"{_percent(end)},100%{{opacity:1;transform:none}}}}"
        f".{name}{{animation:{name} {count * SECONDS_AN_ACT:g}s ease-in-out infinite}}"
    )
