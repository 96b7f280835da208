"""The page's types and shapes, made from lace.workbench.shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lace.workbench.shapes import Shape, shapes

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
