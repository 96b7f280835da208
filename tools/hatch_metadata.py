"""What a package says of itself beyond pyproject.toml: its addresses, and a readable README.

The README's links lead to files beside it. Whoever reads it on the page of a package has no such
files, so that there each link gets the address of the repository in front. The build reads this
file: it must not import Lace, nor anything but hatchling.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The target of a link or an image, unless it has a scheme or stays on the page.
_RELATIVE = re.compile(r"(?<=\]\()(?![A-Za-z][A-Za-z0-9+.-]*:|#)(?=[^\s)])")


class LaceMetadata(MetadataHookInterface):
    """Gives the package its addresses and its description."""

    def update(self, metadata: dict[str, Any]) -> None:
        documents = self.config["documents"]
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, documents),
        }
        metadata["urls"] = {
            "Homepage": self.config["home"],
            "Documentation": f"{documents}docs/tutorial.md",
            "Source": documents,
            "Changelog": f"{documents}CHANGELOG.md",
            "Security": f"{documents}SECURITY.md",
        }


def with_absolute_links(text: str, documents: str) -> str:
    """Return a text of Markdown whose links and images all have a full address."""
    return _RELATIVE.sub(lambda _: documents, text)
