"""Types of what the engine sends: the workbench's page, and pages that have a lace.

Those of the workbench are made from ``lace.workbench.shapes``, those of the bundle from
``web/browser/told.py``.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from lace.workbench.shapes import Shape, shape_of, shapes

BROWSER = Path(__file__).parent.parent / "web" / "browser"
DECLARED = BROWSER / "lace.d.mts"
BEGIN = "// Made from told.py by make docs. Do not edit.\n"
END = "// Until here.\n"

_WIDTH = 100
_INNER = " " * 5
HEAD = "// Made from lace/workbench/shapes.py by make docs. Do not edit.\n"


def types_js() -> str:
    """Return the shapes as types for the checker; nothing of it runs."""
    typedefs = "\n".join(_typedef(name, parts) for name, parts in shapes().items())
    return f"{HEAD}\n{typedefs}\nexport {{}};\n"


def shapes_js() -> str:
    """Return the shapes as data, for looking at what came from elsewhere."""
    lines = []
    for name, parts in shapes().items():
        lines.append(f"  {name}: {{")
        for key, kind in parts.items():
            lines += _entry(f"    {json.dumps(key)}: ", kind)
        lines.append("  },")
    body = "\n".join(lines)
    return (
        f"{HEAD}// @ts-check\n\n/** @type {{Record<string, Record<string, any>>}} */\n"
        f"export const SHAPES = {{\n{body}\n}};\n"
    )


def _entry(start: str, kind: Shape) -> list[str]:
    """Return an entry in one line, or a long list filled into several."""
    line = f"{start}{json.dumps(kind)},"
    if len(line) <= _WIDTH or isinstance(kind, str):
        return [line]
    lines = [f"{start}[", _INNER]
    for one in kind:
        word = f" {json.dumps(one)},"
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append(_INNER)
        lines[-1] += word
    return [*lines, "    ],"]


def told() -> Any:
    """Return the module that says what the engine of a page tells."""
    spec = importlib.util.spec_from_file_location("lace_told", BROWSER / "told.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declarations() -> str:
    """Return ``lace.d.mts`` with the interfaces of what the engine tells as they are now."""
    module = told()
    made = [_interface(kind) for kind in module.TOLD]
    names = " | ".join(kind.__name__ for kind in get_args(module.InterlaceEvent))
    made.append(f"/** What happens in an exchange. */\nexport type InterlaceEvent =\n  {names};\n")
    text = DECLARED.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n".join(made) + END + rest.split(END)[1]


def _interface(kind: type) -> str:
    lines = [f"/** {kind.__doc__} */", f"export interface {kind.__name__} {{"]
    for name, of in get_type_hints(kind, include_extras=True).items():
        if get_origin(of) is Annotated:
            lines.append(f"  /** {get_args(of)[1]} */")
        lines.append(f"  readonly {name}: {_read_only(shape_of(of))};")
    return "\n".join([*lines, "}", ""])


def _read_only(kind: Shape) -> str:
    match kind:
        case ["list", of]:
            return f"readonly {_written(of)}[]"
        case ["one of", *others]:
            return " | ".join(_written(other) for other in others)
    return _written(kind)


def _typedef(name: str, parts: Mapping[str, Shape]) -> str:
    lines = [f"/** @typedef {{object}} {name}"]
    for key, kind in parts.items():
        shown = f"[{key[:-1]}]" if key.endswith("?") else key
        lines.append(f" * @property {{{_written(kind)}}} {shown}")
    return "\n".join([*lines, " */"])


def _written(kind: Shape) -> str:
    match kind:
        case str():
            return kind
        case ["is", word]:
            return json.dumps(word)
        case ["shape", name]:
            return str(name)
        case ["one of", *others]:
            return "|".join(_written(other) for other in others)
        case ["list", of]:
            inner = _written(of)
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case ["map", of]:
            return f"Record<string, {_written(of)}>"
        case ["row", *of]:
            return f"[{', '.join(_written(one) for one in of)}]"
    raise TypeError(f"{kind} has no type")
