"""The scenarios that come with Lace, and how any scenario is found by name or by file."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Final

from lace.errors import Code, UsageError
from lace.limits import SCENARIO
from lace.scenario.build import Built, load_scenario
from lace.text import shown

# An installed package carries them beside this file; a working copy has them at its root.
_PLACES: Final = (
    Path(__file__).parent / "files",
    Path(__file__).parent.parent.parent.parent / "scenarios",
)


def library() -> dict[str, Path]:
    """Return the scenarios that come with Lace, by name; the notes room comes first."""
    for place in _PLACES:
        found = {path.stem: path for path in sorted(place.glob("*.toml"))}
        if found:
            first = {"notes-room": found.pop("notes-room")} if "notes-room" in found else {}
            return first | found
    return {}


def scenario_text(name: str) -> tuple[str, str]:
    """Return the name and the text of a scenario that is given by name or by file."""
    path = library().get(name) or Path(name)
    if path.suffix != ".toml" and not path.exists():
        if "/" in name or path.suffix in {".jsonl", ".lace"}:
            raise UsageError(f"there is no file {shown(name)}", code=Code.INPUT_FILE)
        near = get_close_matches(name, library(), n=1)
        hint = f"Did you mean {near[0]}?" if near else "lace scenario list shows what there is."
        message = f"there is no scenario {shown(name)}"
        raise UsageError(message, code=Code.INPUT_FILE, hint=hint)
    try:
        with path.open("rb") as file:
            content = file.read(SCENARIO.file_bytes + 1)
    except OSError as error:
        message = f"cannot read {name}: {error.strerror}"
        raise UsageError(message, code=Code.INPUT_FILE) from None
    try:
        return path.stem, content.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{name}: byte {error.start} is not UTF-8"
        raise UsageError(message, code=Code.TEXT_UTF8) from None


def find_scenario(name: str) -> Built:
    """Return a built scenario by name or by file."""
    stem, text = scenario_text(name)
    return load_scenario(text, stem)
