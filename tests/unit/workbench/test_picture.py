"""Pictures of runs say what happened, hold no more than they should, and move without a browser."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from command import lace_inside
from PIL import Image

from lace.errors import UsageError
from lace.limits import WORKBENCH
from lace.scenario.build import load_scenario
from lace.scenario.library import find_scenario, scenario_text
from lace.workbench import picture
from lace.workbench.drawing import Frame, Picture, Text, as_moving_svg, as_svg, fitted, wrapped
from lace.workbench.picture import moving, scene_of, still
from lace.workbench.raster import as_png
from lace.workbench.recording import record_run

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def notes() -> dict[str, Any]:
    return record_run(find_scenario("notes-room"))


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  (our own)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def test_a_drawing_has_every_message_that_says_something(notes: dict[str, Any]) -> None:
    scene = scene_of(notes)
    said = texts(as_svg(still(scene)))
    for message in scene.messages.values():
        if message["kind"] != "end":
            assert message["summary"] in said
    assert "stored 2" in said
    assert said[-1] == "fixed point"
    assert "end of ask" not in said  # nothing came of it


def test_a_moving_picture_ends_with_what_each_side_has(notes: dict[str, Any]) -> None:
    frames = moving(scene_of(notes))
    first, last = (
        [shape.text for shape in frame.picture.shapes if isinstance(shape, Text)]
        for frame in (frames[0], frames[-1])
    )
    assert first.count("bob-note") == 1
    assert last.count("bob-note") == last.count("alice-note") == 2
    assert last.count("mallory-note") == 1
    assert {"6 records", "4 records", "fixed point"} <= set(last)
    assert 5_000 < sum(frame.milliseconds for frame in frames) < 40_000


def visible(svg: str) -> list[str]:
    """What is seen where nothing moves."""
    style = parsed(svg).find(f"{SVG}style")
    assert style is not None
    hidden = set(re.findall(r"\.(m\d+)\{visibility:hidden", style.text or ""))
    return [
        element.text or ""
        for element in parsed(svg).iter(f"{SVG}text")
        if not hidden & set((element.get("class") or "").split())
    ]


def test_without_motion_it_shows_how_it_ends(notes: dict[str, Any]) -> None:
    frames = moving(scene_of(notes))
    svg = as_moving_svg(frames)
    last = [shape.text for shape in frames[-1].picture.shapes if isinstance(shape, Text)]
    assert sorted(visible(svg)) == sorted(last)
    assert "prefers-reduced-motion" in svg
    assert svg.count("infinite}") == svg.count("@keyframes")


def test_each_frame_is_shown_in_its_time() -> None:
    texts_ = [Text(0, 9, word, 9) for word in ("one", "two", "three")]
    shown = [(texts_[0],), (texts_[0], texts_[1]), (texts_[2],)]
    frames = [Frame(Picture(9, 9, shapes, "words"), 1000) for shapes in shown]
    svg = as_moving_svg(frames)
    moves = dict(re.findall(r"@keyframes (m\d)\{(.*)\}", svg))
    assert moves == {
        "m0": "0%{visibility:visible}66.67%{visibility:hidden}",
        "m1": "0%{visibility:hidden}33.33%{visibility:visible}66.67%{visibility:hidden}",
        "m2": "0%{visibility:hidden}66.67%{visibility:visible}",
    }


def test_words_of_a_scenario_do_nothing_in_a_picture() -> None:
    text = scenario_text("notes-room")[1].replace('"Notes room"', '"</title><script>x</script>&"')
    scene = scene_of(record_run(load_scenario(text)))
    for svg in (as_svg(still(scene)), as_moving_svg(moving(scene))):
        assert "<script" not in svg
        assert "</title><script>x</script>&" in texts(svg)


def test_long_names_stay_in_their_place() -> None:
    assert fitted("x" * 500, 10, 100).endswith("…")
    assert len(fitted("界" * 500, 10, 100)) < 12
    assert wrapped("a " * 400, 10, 100, 2)[-1].endswith("…")
    assert len(wrapped("a " * 400, 10, 100, 2)) == 2
    assert wrapped("", 10, 100, 2) == []


def test_a_scene_in_which_nobody_meets_is_named(notes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="nobody meets in scene 9") as error:
        scene_of(notes, 9)
    assert error.value.hint == "Scenes in which two meet: 1, 2."


def test_a_long_exchange_is_cut_and_says_so(
    notes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "WORKBENCH", replace(WORKBENCH, picture_steps=5))
    said = texts(as_svg(still(scene_of(notes))))
    assert said[-1] == f"{len(scene_of(notes).steps) - 5} more steps"


def test_a_png_moves_for_as_long_as_its_frames(notes: dict[str, Any]) -> None:
    frames = moving(scene_of(notes, 2))[:9]
    made = as_png(frames, "dark")
    image = Image.open(BytesIO(made))
    assert getattr(image, "is_animated", False)
    times = []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        times.append(image.info["duration"])
    assert sum(times) == sum(frame.milliseconds for frame in frames)
    large = as_png([Frame(still(scene_of(notes, 2)), 0)], scale=2)
    still_ = still(scene_of(notes, 2))
    assert struct.unpack(">II", large[16:24]) == (2 * still_.width, 2 * still_.height)


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.apng"])
def test_the_command_writes_what_the_name_says(name: str, tmp_path: Path) -> None:
    done = lace_inside(
        "scenario", "picture", "notes-room", "--scene", "2", "-o", name, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    content = (tmp_path / name).read_bytes()
    assert content[:8] == (b"<svg xml" if name == "a.svg" else b"\x89PNG\r\n\x1a\n")
    assert (b"acTL" in content) is (name == "a.apng")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "a.gif"), "a.gif does not say what kind of picture it is"),
        (("-o", "a.svg", "--scene", "7"), "nobody meets in scene 7"),
        (("-o", "no/where/a.svg"), "no/where/a.svg"),
        (("-o", "there.svg"), "there.svg exists already"),
        (("-o", "a.png", "--font", "there.svg"), "there.svg is no font"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "there.svg").touch()
    done = lace_inside("scenario", "picture", "notes-room", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert said.encode() in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there.svg"]
