"""A real workbench on a real port, and a real Chromium to look at it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, sync_playwright

from ensure_browser import ADVICE, find_browser


@contextmanager
def workbench(*arguments: str) -> Iterator[str]:
    """Run ``lace workbench`` in a process of its own; yield the link it prints."""
    command = [sys.executable, "-m", "lace", "workbench", *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"Workbench: (http://\S+)", line)
        if found is None:
            process.kill()
            raise AssertionError(line + process.communicate()[1])
        yield found.group(1)
    finally:
        process.terminate()
        process.wait(timeout=20)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    """Yield a browser; where there is none, skip the test loudly, and say what to do."""
    path = find_browser()
    if path is None:
        pytest.skip(f"NOT tested: {ADVICE}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", *options])
        yield browser
        browser.close()


@contextmanager
def static_site(directory: Path) -> Iterator[str]:
    """Serve a folder as any web server would."""
    command = [
        sys.executable,
        "-m",
        "http.server",
        "0",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(directory),
    ]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"\((http://[^)]+)\)", process.stdout.readline())
        assert found is not None
        yield found.group(1)
    finally:
        process.terminate()
        process.wait(timeout=20)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def guarded_site(directory: Path, policy: str) -> Iterator[str]:
    """Serve a folder, every file with a Content-Security-Policy."""

    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", policy)
            super().end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=str(directory))
    ) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
