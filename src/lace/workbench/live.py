"""A server's exchanges while they happen, read from where ``lace serve --watch`` answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lace.errors import Code, UsageError
from lace.limits import WORKBENCH
from lace.workbench.real import RealLace
from lace.workbench.retold import retold

_NAME: Final = re.compile(r"exchange-(\d{1,12})")
_SECONDS: Final = 10

Json = dict[str, Any]


@dataclass(slots=True)
class Live:
    """The exchanges of one server; only asked, never told anything."""

    address: str
    token: str
    lace: RealLace | None = None
    people: Mapping[str, str] = field(default_factory=dict)

    def listed(self) -> list[Json]:
        """Return the exchanges that are held there, the newest first."""
        try:
            found = json.loads(self._get("exchanges"))
            return [
                {"name": f"exchange-{int(one['number'])}", "title": _title(one)}
                for one in reversed(found)
            ]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._problem("does not answer as lace serve --watch does") from None

    def has(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    def recording(self, name: str) -> Json:
        """Return an exchange as far as it has come."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise self._problem(f"has no {name}")
        text = self._get(f"exchanges/{found[1]}").decode("utf-8", "replace")
        made = retold(text.splitlines(), f"Exchange {found[1]}", self.lace, self.people)
        made["scenario"]["name"] = name
        return made

    def _get(self, what: str) -> bytes:
        from http.client import HTTPConnection, HTTPException  # not needed just to start
        from urllib.parse import urlsplit

        place = urlsplit(self.address)
        line = HTTPConnection(place.hostname or "", place.port, timeout=_SECONDS)
        try:
            line.request("GET", f"/{what}", headers={"Authorization": f"Bearer {self.token}"})
            answer = line.getresponse()
            content = answer.read(WORKBENCH.watched_bytes + 1)
        except (OSError, HTTPException, ValueError):
            raise self._problem("does not answer") from None
        finally:
            line.close()
        if answer.status == 403:
            raise self._problem("does not know the token")
        if answer.status != 200 or len(content) > WORKBENCH.watched_bytes:
            raise self._problem("does not hold that any more")
        return content

    def _problem(self, what: str) -> UsageError:
        return UsageError(
            f"{self.address} {what}", code=Code.TRANSPORT_CONNECT,
            hint="Start lace serve with --watch PORT --watch-token FILE, and give the same here.",
        )  # fmt: skip


def _title(one: Json) -> str:
    steps = "1 step" if one["steps"] == 1 else f"{one['steps']} steps"
    state = "ended" if one["ended"] else "under way"
    return f"Exchange {one['number']} with {one['host']}: {steps}, {state}"
