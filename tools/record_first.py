"""Write the recording that the workbench shows before its engine is there. ``--check`` compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lace.scenario.build import load_scenario
from lace.scenario.library import scenario_text
from lace.workbench.recording import record_run

FIRST = "notes-room"
PLACE = Path(__file__).parent.parent / "src/lace/workbench/static/recordings" / f"{FIRST}.json"


def recording() -> str:
    """Return the recording as it would be written now."""
    name, text = scenario_text(FIRST)
    made = record_run(load_scenario(text, name), text=text)
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def is_fresh() -> bool:
    return PLACE.exists() and PLACE.read_text(encoding="utf-8") == recording()


def main() -> int:
    if "--check" in sys.argv:
        return 0 if is_fresh() else 1
    if not is_fresh():
        PLACE.parent.mkdir(exist_ok=True)
        PLACE.write_text(recording(), encoding="utf-8", newline="\n")
        print(f"{PLACE.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
