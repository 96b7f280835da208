"""Draws pictures for documents: plain SVG on a light sheet, readable in light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

PAPER, INK, SOFT, LINE = "#faf8f3", "#1d2430", "#5a6472", "#9aa3af"
BLUE, GREEN, RED, GOLD = "#dbe7fb", "#d9efdd", "#f9dcd6", "#fbeccb"
FILLS = frozenset((PAPER, BLUE, GREEN, RED, GOLD))
"""What text may stand on; a test holds each to the contrast that is asked of text."""


@dataclass
class Picture:
    """A sheet of a size in pixels, with a title that is read aloud."""

    width: int
    height: int
    title: str
    style: str = ""
    parts: list[str] = field(default_factory=list)

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        *,
        fill: str = PAPER,
        line: str = LINE,
        more: str = "",
    ) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" fill="{fill}" '
            f'stroke="{line}"{more}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        at: str = "start",
        colour: str = INK,
        bold: bool = False,
        mono: bool = False,
        more: str = "",
    ) -> None:
        family = ' font-family="ui-monospace,Menlo,Consolas,monospace"' if mono else ""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{at}" '
            f'fill="{colour}"{family}{weight}{more}>{escape(words)}</text>'
        )

    def label(self, x: float, y: float, w: float, h: float, words: str, *, fill: str) -> None:
        """Draw a box with one line of text in its middle."""
        self.box(x, y, w, h, fill=fill)
        self.text(x + w / 2, y + h / 2 + 4.5, words, at="middle")

    def arrow(self, path: str, *, dashed: bool = False, more: str = "") -> None:
        """Draw a path that ends in an arrowhead."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{SOFT}" stroke-width="1.5" '
            f'marker-end="url(#tip)"{dashes}{more}/>'
        )

    def raw(self, text: str) -> None:
        self.parts.append(text)

    def svg(self) -> str:
        """Return the file."""
        style = f"<style>{self.style}</style>\n" if self.style else ""
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" '
            'font-family="system-ui,Segoe UI,Helvetica,Arial,sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n{style}"
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{SOFT}"/></marker>'
            "</defs>\n"
            f'<rect width="{self.width}" height="{self.height}" rx="10" fill="{PAPER}"/>\n'
            f"{body}\n</svg>\n"
        )
