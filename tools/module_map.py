"""The map of modules: the layers of pyproject.toml, with what each module says of itself."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lace"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
BEGIN = "<!-- The rows are written by `make docs`. -->\n"
END = "<!-- End of the rows. -->\n"


def rows() -> list[list[str]]:
    """Return the packages and modules of each layer, from above to below."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    return [[name.strip(" ()") for name in re.split(r"[|:]", row)] for row in layers]


def about(path: Path) -> str:
    """Return the first line of what a module or package says of itself."""
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return doc.splitlines()[0].replace("``", "`").replace("|", "\\|") if doc else "-"


def modules(package: Path) -> list[Path]:
    """Return everything in a package but its own file, in order of names."""
    if not package.is_dir():
        return []
    inner = [path for path in package.iterdir() if path.suffix == ".py" and path.stem != "__init__"]
    inner += [path for path in package.iterdir() if (path / "__init__.py").is_file()]
    return sorted(path.with_suffix("") for path in inner)


def contributing() -> str:
    """Return CONTRIBUTING.md with its rows as they are now."""
    before, _, rest = CONTRIBUTING.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    lines = ["| Row | What it is | Modules |", "|---|---|---|"]
    for row in rows():
        for name in row:
            inner = ", ".join(path.stem for path in modules(SOURCE / name)) or "-"
            lines.append(f"| `{name}` | {about(SOURCE / name)} | {inner} |")
        lines.append("| | | |")
    table = "\n".join(lines[:-1])
    return f"{before}{BEGIN}\n{table}\n\n{END}{after}"


def module_page() -> str:
    """Return the page with every module, row by row."""
    lines = [
        "# Modules",
        "",
        "Every module with the first line of what it says of itself. A module imports only from",
        "its own row or from rows below; `make lint` checks it, and that no module is left out.",
    ]
    for number, row in enumerate(rows(), 1):
        lines += [
            "",
            f"## Row {number}: {', '.join(row)}",
            "",
            "| Module | What it is |",
            "|---|---|",
        ]
        for name in row:
            for path in (SOURCE / name, *modules(SOURCE / name)):
                dotted = ".".join(("lace", *path.relative_to(SOURCE).parts))
                lines.append(f"| `{dotted}` | {about(path)} |")
    return "\n".join(lines) + "\n"
