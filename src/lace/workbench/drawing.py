"""Pictures as shapes: one description, written as SVG here and as pixels by ``raster``.

A moving picture is a list of frames. Written as SVG, each shape stands in it once and is shown in
the frames that have it, in front of what came before it; whoever cannot or does not want to see
motion sees the last frame.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, Literal

from lace.text import safe

Ink = Literal[
    "bg", "panel", "sunken", "line", "text", "muted", "accent", "good", "bad", "left", "right"
]
Theme = Literal["light", "dark"]

COLOURS: Final[dict[Ink, tuple[str, str]]] = {
    "bg": ("#f5f4f0", "#16181c"),
    "panel": ("#ffffff", "#1d2026"),
    "sunken": ("#eceae4", "#262a31"),
    "line": ("#d2cec4", "#3a404a"),
    "text": ("#22252a", "#e4e6ea"),
    "muted": ("#5c6068", "#a3a9b3"),
    "accent": ("#235a8c", "#7db7ec"),
    "good": ("#1d6b3c", "#7ccf9a"),
    "bad": ("#a3261f", "#f39a90"),
    "left": ("#235a8c", "#7db7ec"),
    "right": ("#8a4a1f", "#e6a878"),
}
"""What each ink is in the light and in the dark, as on the page."""

_FONT: Final = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
_EM: Final = 0.57  # the width of most letters of most fonts, rather more than less
_WIDE: Final = 1.05
_WIDE_KINDS: Final = frozenset(("W", "F"))


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with round corners."""

    x: float
    y: float
    width: float
    height: float
    fill: Ink
    stroke: Ink | None = None
    radius: float = 6
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line, with a tip at its end if it is an arrow."""

    x1: float
    y1: float
    x2: float
    y2: float
    ink: Ink
    width: float = 1.4
    tip: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    ink: Ink


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text; ``y`` is where its letters stand."""

    x: float
    y: float
    text: str
    size: float
    ink: Ink = "text"
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False


Shape = Box | Line | Dot | Text


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes from back to front, and what they show in words."""

    width: int
    height: int
    shapes: tuple[Shape, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture and how long it is shown."""

    picture: Picture
    milliseconds: int


@dataclass(slots=True)
class Sheet:
    """A place to put shapes while a picture is made."""

    shapes: list[Shape] = field(default_factory=list)

    def put(self, *shapes: Shape) -> None:
        self.shapes.extend(shapes)


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is, without asking a font."""
    wide = sum(unicodedata.east_asian_width(one) in _WIDE_KINDS for one in text)
    return size * (_EM * (len(text) - wide) + _WIDE * wide)


def fitted(text: str, size: float, width: float) -> str:
    """Return as much of a text as fits on one line; what is cut ends with an ellipsis."""
    text = safe(" ".join(text.split()))
    if text_width(text, size) <= width:
        return text
    while text and text_width(f"{text}…", size) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def wrapped(text: str, size: float, width: float, most: int) -> list[str]:
    """Return a text in at most so many lines; the last one says if there is more."""
    words = safe(text).split()
    lines: list[str] = []
    while words and len(lines) < most - 1:
        taken = 1
        while taken < len(words) and text_width(" ".join(words[: taken + 1]), size) <= width:
            taken += 1
        lines.append(fitted(" ".join(words[:taken]), size, width))
        words = words[taken:]
    if words:
        lines.append(fitted(" ".join(words), size, width))
    return lines


# --- as SVG ---


def as_svg(picture: Picture, theme: Theme | None = None) -> str:
    """Return a picture as SVG; without a theme it follows the one of whoever looks at it."""
    return _svg(picture, _style(theme), (_element(shape) for shape in picture.shapes))


def as_moving_svg(frames: Sequence[Frame], theme: Theme | None = None) -> str:
    """Return frames as one SVG that moves by itself, again and again."""
    seen: dict[Shape, list[int]] = {}
    for number, frame in enumerate(frames):
        for shape in frame.picture.shapes:
            numbers = seen.setdefault(shape, [])
            if not numbers or numbers[-1] != number:
                numbers.append(number)
    starts = [0]
    for frame in frames:
        starts.append(starts[-1] + frame.milliseconds)
    classes: dict[tuple[int, ...], str] = {}
    elements = []
    for shape, numbers in seen.items():
        if len(numbers) == len(frames):
            elements.append(_element(shape))
        else:
            name = classes.setdefault(tuple(numbers), f"m{len(classes)}")
            elements.append(_element(shape, name))
    seconds = f"{starts[-1] / 1000:g}s"
    style = [_style(theme)]
    for slots, name in classes.items():
        rest = "visible" if len(frames) - 1 in slots else "hidden"
        style.append(f".{name}{{visibility:{rest};animation:{name} {seconds} step-end infinite}}")
        style.append(f"@keyframes {name}{{{_keyframes(slots, starts)}}}")
    style.append("@media (prefers-reduced-motion:reduce){*{animation:none!important}}")
    return _svg(frames[-1].picture, "\n".join(style), elements)


def _keyframes(numbers: Iterable[int], starts: Sequence[int]) -> str:
    shown = set(numbers)
    parts = []
    last: bool | None = None
    for number in range(len(starts) - 1):
        now = number in shown
        if now is not last:
            share = f"{100 * starts[number] / starts[-1]:.2f}".rstrip("0").rstrip(".")
            parts.append(f"{share}%{{visibility:{'visible' if now else 'hidden'}}}")
            last = now
    return "".join(parts)


def _svg(picture: Picture, style: str, elements: Iterable[str]) -> str:
    lines = "\n".join(elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {picture.width} {picture.height}" '
        f'width="{picture.width}" height="{picture.height}" role="img" aria-labelledby="words">\n'
        f'<title id="words">{_escaped(picture.words)}</title>\n'
        f"<style>\n{style}\n</style>\n{lines}\n</svg>\n"
    )


def _style(theme: Theme | None) -> str:
    inks = [f".f-{ink}{{fill:{{{ink}}}}}.s-{ink}{{stroke:{{{ink}}}}}" for ink in COLOURS]

    def in_theme(which: int) -> str:
        return "".join(
            line.replace(f"{{{ink}}}", COLOURS[ink][which])
            for line, ink in zip(inks, COLOURS, strict=True)
        )

    text = f"text{{font-family:{_FONT}}}.b{{font-weight:650}}"
    if theme is not None:
        return text + in_theme(0 if theme == "light" else 1)
    return f"{text}{in_theme(0)}\n@media (prefers-color-scheme:dark){{{in_theme(1)}}}"


def _element(shape: Shape, name: str = "") -> str:
    more = f" {name}" if name else ""
    match shape:
        case Box():
            stroke = f" s-{shape.stroke}" if shape.stroke else ""
            dashed = ' stroke-dasharray="4 3"' if shape.dashed else ""
            return (
                f'<rect class="f-{shape.fill}{stroke}{more}" x="{shape.x:g}" y="{shape.y:g}" '
                f'width="{shape.width:g}" height="{shape.height:g}" rx="{shape.radius:g}"{dashed}/>'
            )
        case Dot():
            return (
                f'<circle class="f-{shape.ink}{more}" cx="{shape.x:g}" cy="{shape.y:g}" '
                f'r="{shape.radius:g}"/>'
            )
        case Text():
            bold = " b" if shape.bold else ""
            return (
                f'<text class="f-{shape.ink}{bold}{more}" x="{shape.x:g}" y="{shape.y:g}" '
                f'font-size="{shape.size:g}" text-anchor="{shape.anchor}">{_escaped(shape.text)}'
                "</text>"
            )
        case Line():
            dashed = ' stroke-dasharray="5 4"' if shape.dashed else ""
            line = (
                f'<line class="s-{shape.ink}{more}" x1="{shape.x1:g}" y1="{shape.y1:g}" '
                f'x2="{shape.x2:g}" y2="{shape.y2:g}" stroke-width="{shape.width:g}"{dashed}/>'
            )
            if not shape.tip:
                return line
            points = " ".join(f"{x:.4g},{y:.4g}" for x, y in tip_of(shape))
            return f'{line}<polygon class="f-{shape.ink}{more}" points="{points}"/>'


def tip_of(line: Line) -> list[tuple[float, float]]:
    """Return the corners of the triangle at the end of an arrow."""
    dx, dy = line.x2 - line.x1, line.y2 - line.y1
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    back = (line.x2 - 9 * ux, line.y2 - 9 * uy)
    return [
        (line.x2, line.y2),
        (back[0] - 4.5 * uy, back[1] + 4.5 * ux),
        (back[0] + 4.5 * uy, back[1] - 4.5 * ux),
    ]


def _escaped(text: str) -> str:
    return escape(safe(text), quote=False)
