"""Pictures as pixels: PNG, and APNG where they move. Pillow draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lace.errors import Code, UsageError
from lace.extras import require
from lace.workbench.drawing import (
    COLOURS,
    Box,
    Dot,
    Frame,
    Line,
    Picture,
    Shape,
    Text,
    Theme,
    tip_of,
)

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

    FontOf = Callable[[float], FreeTypeFont]

_FINE: Final = 2
"""Shapes are drawn so many times larger and made smaller again, which smooths their edges."""


def as_png(
    frames: Sequence[Frame], theme: Theme = "light", scale: int = 1, font: Path | None = None
) -> bytes:
    """Return frames as PNG; more than one make a picture that moves, again and again."""
    require("picture", "a PNG")
    fonts = _fonts(font)
    images: list[Image] = []
    times: list[int] = []
    for frame in frames:
        image = _drawn(frame.picture, theme, scale, fonts)
        if images and image.tobytes() == images[-1].tobytes():
            times[-1] += frame.milliseconds
        else:
            images.append(image)
            times.append(frame.milliseconds)
    made = BytesIO()
    if len(images) == 1:
        images[0].save(made, "PNG", optimize=True)
    else:
        images[0].save(
            made, "PNG", save_all=True, append_images=images[1:], duration=times, loop=0,
        )  # fmt: skip
    return made.getvalue()


def _fonts(path: Path | None) -> FontOf:
    from functools import lru_cache

    from PIL import ImageFont

    @lru_cache(maxsize=64)
    def sized(size: float) -> FreeTypeFont:
        if path is None:
            font = ImageFont.load_default(size)
            assert isinstance(font, ImageFont.FreeTypeFont)
            return font
        try:
            return ImageFont.truetype(path, size)
        except OSError:
            raise UsageError(
                f"{path} is no font", code=Code.INPUT_FILE, hint="Name a TrueType or OpenType file."
            ) from None

    return sized


def _drawn(picture: Picture, theme: Theme, scale: int, fonts: FontOf) -> Image:
    from PIL import Image, ImageDraw

    fine = scale * _FINE
    image = Image.new("RGB", (picture.width * fine, picture.height * fine))
    draw = ImageDraw.Draw(image)
    for shape in picture.shapes:
        _put(draw, shape, theme, fine, fonts)
    size = (picture.width * scale, picture.height * scale)
    return image.resize(size, Image.Resampling.BOX)


def _put(draw: ImageDraw, shape: Shape, theme: Theme, fine: int, fonts: FontOf) -> None:
    which = 0 if theme == "light" else 1
    match shape:
        case Box():
            corners = (
                shape.x * fine, shape.y * fine,
                (shape.x + shape.width) * fine, (shape.y + shape.height) * fine,
            )  # fmt: skip
            stroke = None if shape.stroke is None else COLOURS[shape.stroke][which]
            draw.rounded_rectangle(
                corners, shape.radius * fine, COLOURS[shape.fill][which], stroke, fine
            )
        case Dot():
            centre = (shape.x * fine, shape.y * fine)
            draw.circle(centre, shape.radius * fine, COLOURS[shape.ink][which])
        case Line():
            ink = COLOURS[shape.ink][which]
            ends = (shape.x1 * fine, shape.y1 * fine, shape.x2 * fine, shape.y2 * fine)
            draw.line(ends, ink, max(1, round(shape.width * fine)))
            if shape.tip:
                draw.polygon([(x * fine, y * fine) for x, y in tip_of(shape)], ink)
        case Text():
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            draw.text(
                (shape.x * fine, shape.y * fine), shape.text, COLOURS[shape.ink][which],
                fonts(shape.size * fine), anchor, stroke_width=fine / 6 if shape.bold else 0,
            )  # fmt: skip
