"""Run the notebooks of docs/ from top to bottom, without Jupyter, and keep their outputs.

Cells are plain Python: each is run in the same namespace as those before it. What it prints, and
the value of its last line, become its outputs. ``--check`` compares instead of writing.

A kernel (nbclient, ipykernel) gives the same texts. It takes five seconds for each start, a port,
and 33 more packages, and is left to readers.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"


def run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one cell; return its outputs as a notebook keeps them."""
    tree = ast.parse(source)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), namespace)  # noqa: S102 (our own notebooks)
        if last is not None:
            value = eval(compile(last, "cell", "eval"), namespace)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append(
            {
                "data": shown,
                "execution_count": None,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def run_notebook(path: Path) -> str:
    """Return the text of a notebook with the outputs that it has now."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = run_cell("".join(cell["source"]), namespace)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    stale = 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        text = run_notebook(path)
        if text != path.read_text(encoding="utf-8"):
            stale += 1
            print(f"{path.name} {'is stale' if '--check' in sys.argv else 'written'}")
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
