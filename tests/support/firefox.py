"""A real Firefox, driven by WebDriver BiDi, which it speaks by itself: no driver is needed.

``LACE_FIREFOX`` names another one than the first that is found. Where there is none, the tests say
loudly that they were not run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from ensure_browser import FIREFOX_ADVICE, find_firefox

_SECONDS = 60


class Firefox:
    """One page of one Firefox."""

    def __init__(self, line: ClientConnection) -> None:
        self._line = line
        self._number = 0
        self.complaints: list[str] = []
        self._call("session.new", capabilities={})
        self._call("session.subscribe", events=["log.entryAdded"])
        self._page = self._call("browsingContext.getTree")["contexts"][0]["context"]

    def goto(self, url: str) -> None:
        self._call("browsingContext.navigate", context=self._page, url=url, wait="complete")

    def run(self, script: str) -> Any:
        """Return what an expression, or its promise, gives; as JSON."""
        done = self._call(
            "script.evaluate", expression=f"(async () => JSON.stringify(await ({script})))()",
            target={"context": self._page}, awaitPromise=True,
        )  # fmt: skip
        assert done["type"] == "success", done["exceptionDetails"]["text"]
        value = done["result"].get("value")
        return None if value is None else json.loads(value)

    def until(self, script: str, wanted: Callable[[Any], bool] = bool) -> Any:
        """Wait until an expression gives what is wanted."""
        for _ in range(_SECONDS * 10):
            found = self.run(script)
            if wanted(found):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{script} stayed {found!r}; {self.complaints}")

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        call = {"id": self._number, "method": method, "params": parameters}
        self._line.send(json.dumps(call))
        while True:
            said = json.loads(self._line.recv(timeout=_SECONDS))
            if said.get("method") == "log.entryAdded" and said["params"]["level"] == "error":
                self.complaints.append(said["params"]["text"])
            if said.get("id") == self._number:
                assert said["type"] == "success", said
                return said["result"]


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """Run a Firefox with a new profile until the block ends."""
    path = find_firefox()
    if path is None:
        pytest.skip(f"NOT tested: {FIREFOX_ADVICE}")
    (folder / "profile").mkdir()
    log = folder / "firefox.log"
    command = [path, "--headless", "--no-remote", "--profile", str(folder / "profile"),
               "--remote-debugging-port", "0", "about:blank"]  # fmt: skip
    with log.open("wb") as file:
        ran = subprocess.Popen(
            command, stdout=file, stderr=file, env=os.environ | {"HOME": str(folder)}
        )
    try:
        for _ in range(_SECONDS * 10):
            found = re.search(
                r"WebDriver BiDi listening on (ws://\S+)", log.read_text("utf-8", "replace")
            )
            if found is not None:
                break
            assert ran.poll() is None, log.read_text("utf-8", "replace")
            time.sleep(0.1)
        else:
            raise AssertionError(log.read_text("utf-8", "replace"))
        with connect(f"{found[1]}/session", max_size=None) as line:
            yield Firefox(line)
    finally:
        ran.terminate()
        ran.wait(timeout=30)
