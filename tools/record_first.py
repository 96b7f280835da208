"""Write what the engine gives to the page and to the documents: types, a recording, pictures.

``--check`` compares instead, and says by its exit status whether all is fresh.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from lace.scenario.build import load_scenario
from lace.scenario.library import scenario_text
from lace.workbench.drawing import as_moving_svg, as_svg
from lace.workbench.picture import moving, scene_of, still
from lace.workbench.recording import record_run
from page_types import DECLARED, declarations, shapes_js, types_js

FIRST = "notes-room"
ROOT = Path(__file__).parent.parent
STATIC = ROOT / "src/lace/workbench/static"
RECORDING = STATIC / "recordings" / f"{FIRST}.json"
PICTURES = ROOT / "docs/pictures"


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file with its text as it would be written now."""
    yield STATIC / "types.js", types_js()
    yield STATIC / "shapes.js", shapes_js()
    yield DECLARED, declarations()
    name, text = scenario_text(FIRST)
    recording = record_run(load_scenario(text, name), text=text)
    written = json.dumps(recording, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    yield RECORDING, written + "\n"
    scene = scene_of(recording)
    yield PICTURES / f"{FIRST}.svg", as_moving_svg(moving(scene))
    yield PICTURES / f"{FIRST}-messages.svg", as_svg(still(scene))


def stale() -> dict[Path, str]:
    """Return the files that are not as they would be written now."""
    return {
        path: text
        for path, text in made()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main() -> int:
    found = stale()
    if "--check" in sys.argv:
        return 1 if found else 0
    for path, text in found.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        print(f"{path.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
