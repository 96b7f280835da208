"""When peers were last met: noted in the folder of a lace by sync and follow, for people to see.

Nothing depends on it: a note that is lost or cannot be read is as if there had been no meeting.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from lace.api.handles import Lace, store_of
from lace.clock import tai_now
from lace.drafts import write_file
from lace.errors import EncodingError
from lace.interlace.messages import InterlaceResult
from lace.limits import FIXED
from lace.recordstore.base import StoreRecordId
from lace.settings import FILE, Settings
from lace.tai import Tai, parse_tai

_NOTES: Final = "met.json"
_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Meeting:
    """The last fixed point with a peer."""

    tai: Tai
    peer: str | None
    """Whom it proved to be."""
    received: int
    sent: int
    mark: int
    """The newest record that was surely offered then; what is newer may not have been."""


def meetings(settings: Settings) -> dict[str, Meeting]:
    """Return the last meeting with each peer, by what it was called."""
    with suppress(OSError, ValueError, TypeError, AttributeError, EncodingError):
        with (settings.folder / _NOTES).open("rb") as file:
            noted = json.loads(file.read(_BYTES))
        return {str(name): _checked(Meeting(**entry)) for name, entry in noted.items()}
    return {}


def _checked(read: Meeting) -> Meeting:
    """Return a meeting whose parts are what they should be, or raise."""
    parse_tai(read.tai)
    if not all(isinstance(number, int) for number in (read.received, read.sent, read.mark)):
        raise TypeError
    return read


def note_meeting(
    settings: Settings,
    name: str,
    local: Lace,
    result: InterlaceResult,
    began: StoreRecordId | None = None,
) -> None:
    """Note a meeting with a peer; a folder that cannot be written to is no reason to fail.

    ``began`` is the newest record that was stored here at its beginning, for one that came to no
    fixed point.
    """
    if not (settings.folder / FILE).is_file():
        return
    met = meetings(settings)
    last = met.pop(name, None)
    mark = store_of(local).high_water()
    if began is not None and not result.fixed_point:
        mark = began
    if result.not_stored is not None or not (result.offered or result.sent):
        # It stores nothing, or showed and took nothing, as to somebody whom it does not know: all
        # waits on.
        mark = StoreRecordId(0 if last is None else last.mark)
    made = Meeting(tai_now(), result.peer, len(result.received), len(result.sent), mark)
    kept = dict([*met.items(), (name, made)][-FIXED.peers_met :])
    text = json.dumps({key: asdict(entry) for key, entry in kept.items()}, indent=1)
    with suppress(OSError):
        write_file(settings.folder / _NOTES, text + "\n", overwrite=True)
