"""The site is made of all pages, every link and anchor in it holds, and it needs no network."""

from __future__ import annotations

import re
import shutil
import socket
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import make_site

# What a browser fetches by itself when it shows a page; a plain link is followed by people alone.
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """What a page loads, where it leads, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors.add(found.get("id", ""))
        if LOADED.get(tag, "") in found:
            self.loaded.append(found[LOADED[tag]])
        elif tag == "a" and "href" in found:
            self.links.append(found["href"])


def faults(site: Path) -> list[str]:
    """Return what in a site comes from elsewhere or leads nowhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        place = path.relative_to(site)
        found += [f"{place} loads {one}" for one in page.loaded if re.search("^//|://", one)]
        for target in page.links + page.loaded:
            if "://" in target or target.startswith(("data:", "mailto:", "javascript:")):
                continue
            name, anchor = urldefrag(target.partition("?")[0])
            file = (path.parent / unquote(name)).resolve() if name else path
            if not file.exists():
                found.append(f"{place} leads to {target}, which is not there")
            elif anchor and unquote(anchor) not in pages[file].anchors:
                found.append(f"{place} leads to {target}, which has no such place")
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        if re.search(r"@import|url\(\s*[\"']?(https?:)?//", text):
            found.append(f"{style.relative_to(site)} loads something from elsewhere")
    return found


@pytest.mark.long
def test_the_site_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    done = make_site.build(into=tmp_path)
    assert done.returncode == 0, done.stderr
    assert faults(tmp_path) == []
    pages = {path.relative_to(make_site.DOCS) for path in make_site.DOCS.rglob("*.md")}
    assert all((tmp_path / page).with_suffix(".html").exists() for page in pages)
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    for section in ("Start", "Guides", "Concepts", "Reference", "Protocol", "Decisions",
                    "For contributors"):  # fmt: skip
        assert f'<span class="caption-text">{section}</span>' in start
    assert "theme-toggle" in start
    assert "prefers-color-scheme:dark" in (tmp_path / "_static/styles/furo.css").read_text("utf-8")
    assert 'href="_static/narrow.css' in start
    assert 'href="_static/lace.svg"' in start
    assert "concepts|howto" in (tmp_path / "_static/language_data.js").read_text(encoding="utf-8")
    words = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    assert '"interlac' in words or "interlac:" in words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("# A\n\n[b](b.md)\n", "b.md"),
        ("# A\n\n[here](#nowhere)\n", "nowhere"),
        ("# A\n\n![picture](none.svg)\n", "none.svg"),
    ],
)
def test_a_link_that_leads_nowhere_would_be_seen(tmp_path: Path, text: str, part: str) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    shutil.copy(make_site.DOCS / "conf.py", source)
    shutil.copytree(make_site.DOCS / "assets", source / "assets")
    (source / "index.md").write_text(text, encoding="utf-8")
    done = make_site.build(source, tmp_path / "site")
    assert done.returncode != 0
    assert part in done.stderr


def test_what_comes_from_elsewhere_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://example.org/b.css'", encoding="utf-8")
    (tmp_path / "a.html").write_text(
        '<script src="//example.org/x.js"></script><a href="b.html">b</a><a href="#c">c</a>',
        encoding="utf-8",
    )
    assert faults(tmp_path) == [
        "a.html loads //example.org/x.js",
        "a.html leads to b.html, which is not there",
        "a.html leads to #c, which has no such place",
        "a.html leads to //example.org/x.js, which is not there",
        "a.css loads something from elsewhere",
    ]


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    page = (make_site.DOCS / "concepts" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| ([\w ]+) \| \S", page, flags=re.MULTILINE)[1:]
    assert len(words) >= 40
    assert words == sorted(set(words), key=str.lower)


def test_a_port_that_cannot_be_had_is_said_before_anything_is_built(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for port in (taken.getsockname()[1], 99_999):
            assert make_site.serve(port) == 1
            assert "SITE_PORT" in capsys.readouterr().out
