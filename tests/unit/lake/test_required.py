"""Without the extra, an import of the lake says how to install it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["tables", "ingest", "select"])
def test_an_import_without_the_extra_says_what_to_install(module: str) -> None:
    script = f"import sys\nsys.modules['pyarrow'] = None\nimport lace.lake.{module}\n"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "MissingExtra: the lake needs packages that are not installed: pyarrow" in done.stderr
    assert 'pip install "lace-engine[lake]"' in done.stderr
