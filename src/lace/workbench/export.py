"""A page that needs no engine: the same files, with every scenario already run."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

from lace._version import __version__
from lace.drafts import write_file
from lace.errors import Code, UsageError
from lace.scenario.build import load_scenario
from lace.scenario.library import scenario_text
from lace.workbench.recording import record_run
from lace.workbench.single import STATIC, single_page

MARK: Final = "lace-workbench-export.json"
SINGLE: Final = "workbench.html"
"""The same in one file, which opens without any server."""


def export(
    directory: Path,
    names: list[str],
    progress: Callable[[str], None] = lambda _name: None,
    engine: Path | None = None,
    links: str = "",
) -> None:
    """Write the page with recordings of the named scenarios; only an empty place is written to.

    ``engine`` is a browser bundle: with it the page can change things without any server.
    ``links`` is where the page will be, for the links that are made in it.
    """
    if engine is not None and not (engine / "lace.mjs").exists():
        raise UsageError(
            f"{engine} is not a browser bundle", code=Code.INPUT_FILE,
            hint="Make one from a clone with python web/bundle.py FOLDER.",
        )  # fmt: skip
    if directory.exists() and any(directory.iterdir()) and not (directory / MARK).exists():
        raise UsageError(
            f"{directory} is not empty", code=Code.INPUT_FILE,
            hint="Name a new directory, or one that was exported before.",
        )  # fmt: skip
    _copy(STATIC, directory)
    page = directory / "index.html"
    text = (STATIC / page.name).read_text(encoding="utf-8")
    if engine is None:
        text = text.replace("<html ", "<html data-recorded ", 1)
    else:
        _copy(engine, directory / "engine")
        text = text.replace("<html ", '<html data-engine="engine/" ', 1)
        # The engine is WebAssembly in a worker; the page's policy has to know of both.
        text = text.replace(
            "script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'", 1
        )
    if links:
        text = text.replace("<html ", f'<html data-links="{escape(links)}" ', 1)
    opening = "Opening the workbench…"
    text = text.replace(
        opening, f'{opening} <a href="{SINGLE}">If nothing happens, open the single file.</a>', 1
    )
    write_file(page, text, overwrite=True)
    recordings = directory / "recordings"
    recordings.mkdir(exist_ok=True)
    listed = []
    made: dict[str, str] = {}
    for name in names:
        stem, text = scenario_text(name)
        built = load_scenario(text, stem)
        recording = record_run(built, text=text)
        made[stem] = json.dumps(recording, ensure_ascii=False, separators=(",", ":"))
        listed.append({"name": stem, "title": built.scenario.title})
        progress(stem)
    index = {"engine": __version__, "scenarios": listed}
    made["index"] = json.dumps(index, ensure_ascii=False)
    for stem, content in made.items():
        write_file(recordings / f"{stem}.json", content, overwrite=True)
    write_file(directory / SINGLE, single_page(STATIC, made, links), overwrite=True)
    write_file(directory / MARK, json.dumps({"engine": __version__}), overwrite=True)


def _copy(folder: Path, to: Path) -> None:
    """Copy the files of a folder, with those in folders of it."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        target = to / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, path.read_bytes(), overwrite=True)
