"""What a package says of itself beyond pyproject.toml: a README that can be read anywhere.

The README's links lead to files beside it. Whoever reads it on the page of a package has no such
files, so that there each such link is its text alone; ``lace help`` shows the pages themselves. The
build reads this file: it must not import Lace, nor anything but hatchling.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or an image whose target has no scheme and is not on the page.
_RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?![A-Za-z][A-Za-z0-9+.-]*:|#)[^\s)]+\)")


class LaceMetadata(MetadataHookInterface):
    """Gives the package its description."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": without_relative_links(text),
        }


def without_relative_links(text: str) -> str:
    """Return a text of Markdown without the links and images that lead to files beside it."""
    return _RELATIVE.sub(lambda found: "" if found[1] else found[2], text)
