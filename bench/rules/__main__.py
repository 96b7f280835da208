"""``python bench/rules``: finds its own modules and those of the other benches."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from rules.run import main  # only now it can be found

    main()
