"""A shared notebook with a live page: Starlette serves the page, Lace keeps and moves the notes.

Whoever can reach it reads. Who knows the word joins with a key of their own and writes; the page
keeps the key and the notebook in the browser, and works without a network until it meets the server
again.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import lace

GROUP, BOOK = "notebook", "pages"
PREFIX = f"//{GROUP}//{BOOK}//"
NOTE = lace.RecordKind(group=GROUP, app=f"{BOOK}/note", fields=("Title",), types={"Data": "text"})
MEMBER = lace.RecordKind(group=GROUP, app=f"{BOOK}/member", fields=("Member", "Role", "Called"))
PAGE = Path(__file__).parent / "notebook_page"
MOST_BYTES, MOST_NAME, MOST_WRONG, WAIT_SECONDS = 4096, 40, 20, 60.0


@dataclass
class Door:
    """Knows the word; too many wrong ones in a row close it for a while."""

    word: str
    wrong: list[float] = field(default_factory=list)

    def is_closed(self) -> bool:
        now = time.monotonic()
        self.wrong = [moment for moment in self.wrong if now - moment < WAIT_SECONDS]
        return len(self.wrong) >= MOST_WRONG

    def opens(self, word: str) -> bool:
        if secrets.compare_digest(word.encode(), self.word.encode()):
            return True
        self.wrong.append(time.monotonic())
        return False


@dataclass
class Notebook:
    """The notebook of one folder: its store, its authority, and who may join."""

    local: lace.Lace
    authority: lace.SigningKey
    door: Door
    address: str = ""

    @property
    def rules(self) -> lace.Room:
        """What belongs: notes of members, and the grants that make them members."""
        return lace.Room(prefix=PREFIX, authority=self.authority.verifier, reads="anyone")

    async def join(self, asked: Any) -> tuple[int, str]:
        """Admit who knows the word; return a status and what is wrong."""
        if self.door.is_closed():
            return 429, "Too many wrong words. Wait a minute."
        if not isinstance(asked, dict) or not all(
            isinstance(asked.get(name), str) for name in ("name", "word", "verifier")
        ):
            return 400, "Give a name, the word, and a verifier."
        name = asked["name"].strip()
        if not 0 < len(name) <= MOST_NAME or not name.isprintable():
            return 400, f"A name has 1 to {MOST_NAME} characters."
        if not self.door.opens(asked["word"]):
            return 403, "That is not the word."
        fields = {"Member": asked["verifier"], "Role": "writer", "Called": name}
        try:
            # Asks for the verifier's form first: it becomes part of a place.
            lace.Room(prefix=PREFIX, authority=asked["verifier"])
            grant = MEMBER.build(asked["verifier"], "", fields, key=self.authority)
        except lace.LaceError as error:
            return 400, error.message
        await lace.store(self.local, [grant])
        return 200, ""

    async def notes(self) -> list[dict[str, str]]:
        """Return the newest version of each note, for readers without scripts."""
        table = await lace.table(self.local, self.rules, ("App", "Title", "Signed-By", "Data"),
                                 newest=True, types={"Data": "text"})  # fmt: skip
        return [
            {
                "title": str(row["Title"]),
                "by": str(row["Signed-By"]),
                "text": str(row["Data"] or ""),
            }
            for row in table
            if row["App"] == NOTE.app
        ]


def make_app(
    folder: Path, *, word: str, bundle: Path, origin: str, listen: str = "ws:127.0.0.1:0"
) -> Starlette:
    """Return the web application of a notebook; the page comes from ``origin``."""
    folder.mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        authority = read_authority(folder / "authority.key")
        with lace.open(folder / "notebook.lace", key=authority) as local:
            book = Notebook(local, authority, Door(word))
            async with lace.serve(local, listen, policy=book.rules, origins=[origin]) as server:
                book.address = server.addresses[0].replace(":", "://", 1)
                app.state.book = book
                yield

    def book_of(request: Request) -> Notebook:
        book = request.app.state.book
        assert isinstance(book, Notebook)
        return book

    async def page(_request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def script(_request: Request) -> Response:
        return FileResponse(PAGE / "page.mjs", media_type="text/javascript")

    async def settings(request: Request) -> Response:
        book = book_of(request)
        return JSONResponse({
            "address": book.address, "authority": book.authority.verifier, "prefix": PREFIX,
            "group": GROUP, "note": NOTE.app, "member": MEMBER.app,
        })  # fmt: skip

    async def join(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return JSONResponse({"wrong": "That is too long."}, 413)
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            return JSONResponse({"wrong": "That is no JSON."}, 400)
        status, wrong = await book_of(request).join(asked)
        return JSONResponse({"wrong": wrong}, status)

    async def notes(request: Request) -> Response:
        return JSONResponse(await book_of(request).notes())

    routes = [
        Route("/", page), Route("/page.mjs", script), Route("/settings.json", settings),
        Route("/join", join, methods=["POST"]), Route("/notes.json", notes),
        Mount("/lace", StaticFiles(directory=bundle)),
    ]  # fmt: skip
    return Starlette(routes=routes, lifespan=life, middleware=[Middleware(Policy)])


class Policy:
    """Lets the page run its own scripts, and speak to this machine's laces, and nothing else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                book = getattr(scope["app"].state, "book", None)
                ours = f" {book.address}" if isinstance(book, Notebook) else ""
                text = (
                    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
                    f"img-src data:; connect-src 'self'{ours}"
                )
                headers = [*message["headers"], (b"content-security-policy", text.encode())]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, with_policy if scope["type"] == "http" else send)


def read_authority(path: Path) -> lace.SigningKey:
    """Return the key that admits members; the first time, make it, readable by its owner alone."""
    if not path.exists():
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(lace.SigningKey.generate().reveal() + "\n", encoding="utf-8")
    return lace.SigningKey.from_secret_text(path.read_text(encoding="utf-8").strip())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the notebook is kept")
    parser.add_argument("--bundle", type=Path, default=Path("dist/lace-browser"))
    parser.add_argument("--port", type=int, default=8080)
    chosen = parser.parse_args(arguments)
    if not (chosen.bundle / "lace.mjs").exists():
        print(f"{chosen.bundle} is no browser bundle: run make bundle first", file=sys.stderr)
        return 1
    word = secrets.token_urlsafe(9)
    origin = f"http://127.0.0.1:{chosen.port}"
    print(f"{origin}/ (the word is {word})", flush=True)
    app = make_app(chosen.folder, word=word, bundle=chosen.bundle, origin=origin)
    uvicorn.run(app, host="127.0.0.1", port=chosen.port, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
