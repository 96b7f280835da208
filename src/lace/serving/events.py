"""Every event that a server tells, in its log and to ``lace.serve``, with what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EVENTS: Final[Mapping[str, str]] = {
    "listening": "The server takes connections at this address, with the port that it really has.",
    "metrics": "Metrics can be fetched at this address.",
    "watch": "Exchanges can be looked at here while they happen, by whoever has the token.",
    "strangers": "What anyone who connects may read, or may write. Told once each, at the start.",
    "identity": "What a proven identity is worth over these transports.",
    "warning": "Something in the settings is probably not what was meant.",
    "connected": "A peer has connected.",
    "fixed-point": "Nothing is left to exchange with this peer for now.",
    "rejected": "A record of a peer was not valid, and was not stored.",
    "quota": "A peer has used up its quota. Told once for a connection.",
    "closed": "An exchange ended in order.",
    "aborted": "An exchange ended early. What was stored stays stored.",
    "failed": "An exchange ended by a fault of this program. Please report it.",
    "refused": "A connection was turned away because there are too many.",
    "quarantined": "A record of the store was found changed, and was put aside.",
    "journal-failed": "The journal of a connection could not be written; the exchange goes on.",
    "watch-failed": "A look at the store or at memory failed. It is soon repeated.",
    "watch-restarted": "What looks at the store or at memory ended, and was begun again.",
    "stopping": "The server was told to stop, and lets its exchanges end.",
    "stopped": "The server has stopped. Nothing follows.",
}
