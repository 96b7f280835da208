"""The whole page in one file, for opening by double click or sending by mail.

Browsers load no modules from files beside a page that is itself a file. So every module becomes a
``data:`` address in an import map, styles and recordings lie in the page, and its policy lets in
nothing but these: each inline part is named by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r'(\bfrom |\bimport |\bimport\()"(\.{1,2}/[^"]+)"')
_LEFT_OUT: Final = frozenset(("engine-worker.js", "lace-scenario.js", "types.js"))
STATIC: Final = Path(__file__).parent / "static"
"""The files of the page."""


def single_page(static: Path, recordings: Mapping[str, str], links: str = "") -> str:
    """Return a page that needs nothing beside it; ``recordings`` are JSON texts by their name.

    ``links`` is where links lead that are made in it.
    """
    icon = _data("image/svg+xml", (static / "icon.svg").read_text(encoding="utf-8"))
    modules = {
        f"lace/{path.relative_to(static).as_posix()}": path.read_text(encoding="utf-8")
        for path in sorted(static.rglob("*.js"))
        if path.name not in _LEFT_OUT
    }
    imports = {
        name: _data(
            "text/javascript", _named_imports(name, text).replace('"icon.svg"', f'"{icon}"')
        )
        for name, text in modules.items()
    }
    table = json.dumps({"imports": imports})
    style = (static / "style.css").read_text(encoding="utf-8")
    start = 'import "lace/app.js";'
    policy = (
        f"default-src 'none'; script-src data: {_digest(table)} {_digest(start)}; "
        f"style-src {_digest(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    blocks = "\n".join(_block(name, text) for name, text in recordings.items())
    leading = f' data-links="{escape(links)}"' if links else ""
    return f"""<!doctype html>
<html lang="en" data-recorded{leading}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>Lace workbench</title>
<link rel="icon" href="{icon}">
<style>{style}</style>
<script type="importmap">{table}</script>
</head>
<body>
<div id="app"><p class="boot">Opening the workbench…</p></div>
{blocks}
<script type="module">{start}</script>
</body>
</html>
"""


def _block(name: str, text: str) -> str:
    """Return JSON as part of a page; nothing in it can end the part early."""
    safe = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="recording-{escape(name)}">{safe}</script>'


def _named_imports(name: str, text: str) -> str:
    """Return a module whose imports are names of the import map, not places beside it."""
    folder = posixpath.dirname(name)

    def renamed(found: re.Match[str]) -> str:
        return f'{found[1]}"{posixpath.normpath(posixpath.join(folder, found[2]))}"'

    return _IMPORT.sub(renamed, text)


def _data(media: str, text: str) -> str:
    return f"data:{media};base64,{base64.b64encode(text.encode()).decode()}"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
