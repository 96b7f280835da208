"""How Sphinx makes a site of the pages in this folder: ``make site``.

Sphinx and its theme bring every font, style and script along, and the search runs in the page: the
site is read without a network, from a web server or straight from the disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pygments.lexers.prolog import PrologLexer

project = "Lace"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
# Each heading can be linked to, so that a link to one that is not there is a fault.
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = "Lace"
html_static_path = ["assets"]
html_css_files = ["narrow.css"]
html_favicon = "assets/lace.svg"
html_search_scorer = str(Path(__file__).parent / "assets/search.js")
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False


def setup(app: Any) -> None:
    """Colour rules as the language that reads most like them."""
    app.add_lexer("lacegram", PrologLexer)
