"""The pictures of the documents, each drawn by a function; ``make docs`` writes the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from concept_pictures import CONCEPTS
from drawing import BLUE, GOLD, GREEN, RED, SOFT, Picture
from lace.interlace.phases import TRANSITIONS, Occasion, Phase

# --- phases ---------------------------------------------------------------------------------------

_PLACES: Final = {
    Phase.SETUP: (0, 0), Phase.HELLO: (1, 0), Phase.ADVERTISE: (2, 0), Phase.ASK: (3, 0),
    Phase.REQUEST: (4, 0), Phase.IDLE: (5, 0), Phase.ANSWER: (3, 1), Phase.TRANSFER: (4, 1),
    Phase.CLOSED: (5, 1),
}  # fmt: skip
# Moves that go back: how high above the row they run, and where they start and end.
_HIGH: Final = {
    (Phase.ADVERTISE, Phase.SETUP): (30, -14, 10),
    (Phase.REQUEST, Phase.ADVERTISE): (30, -14, 14),
    (Phase.IDLE, Phase.ADVERTISE): (58, -14, 0),
    (Phase.IDLE, Phase.SETUP): (86, 14, -10),
}


def phases() -> str:
    """Draw the table of moves; a move without a place here is an error."""
    numbers = {occasion: str(number) for number, occasion in enumerate(Occasion, 1)}
    picture = Picture(
        760, 420, "The phases of an exchange, and what moves a side from one to another"
    )

    def corner(phase: Phase) -> tuple[float, float]:
        column, row = _PLACES[phase]
        return 20 + column * 122, 130 + row * 90

    for phase in Phase:
        x, y = corner(phase)
        fill = GREEN if phase is Phase.IDLE else RED if phase is Phase.CLOSED else BLUE
        picture.label(x, y, 92, 36, str(phase), fill=fill)
    for (before, occasion), after in TRANSITIONS.items():
        if after is Phase.CLOSED:
            continue
        (x, y), (to_x, to_y) = corner(before), corner(after)
        if (before, after) in _HIGH:
            up, start, end = _HIGH[before, after]
            path = f"M{x + 46 + start} {y} V{y - up} H{to_x + 46 + end} V{to_y - 2}"
            spot = ((x + to_x) / 2 + 46, y - up)
        elif to_y > y:
            path = f"M{x + 36} {y + 36} V{to_y - 2}"
            spot = (x + 36, (y + 36 + to_y) / 2)
        elif before is Phase.TRANSFER:
            path = f"M{x + 46} {y + 36} V{y + 62} H{to_x + 46} V{to_y + 38}"
            spot = ((x + to_x) / 2 + 46, y + 62)
        elif to_y < y:
            path = f"M{x + 60} {y} V{to_y + 38}"
            spot = (x + 60, (y + to_y + 36) / 2)
        else:
            path = f"M{x + 92} {y + 18} H{to_x - 2}"
            spot = ((x + 92 + to_x) / 2 - 2, y + 18)
        picture.arrow(path, more=f' data-move="{before}, {occasion}, {after}"')
        picture.raw(
            f'<circle cx="{spot[0]:g}" cy="{spot[1]:g}" r="9" fill="{GOLD}" stroke="{SOFT}"/>'
        )
        picture.text(spot[0], spot[1] + 4, numbers[occasion], size=11, at="middle")
    for occasion, number in numbers.items():
        where = " (from every phase to closed)" if occasion is Occasion.OVER else ""
        y = 310 + 26 * ((int(number) - 1) % 4)
        x = 34 if int(number) <= 4 else 400
        picture.raw(f'<circle cx="{x}" cy="{y}" r="9" fill="{GOLD}" stroke="{SOFT}"/>')
        picture.text(x, y + 4, number, size=11, at="middle")
        picture.text(x + 16, y + 4, f"{occasion}{where}", size=12)
    return picture.svg()


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "images/phases.svg": phases,
    **CONCEPTS,
}
