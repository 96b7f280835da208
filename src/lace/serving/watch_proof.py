"""Proofs that a server and a reader of its exchanges hold one token, which neither of them sends.

The reader draws a nonce and asks for it at ``GET /proof/NONCE``; the server answers with the name
of its run and a proof of its own. Only then does the reader send a proof, with each request that
follows on the same connection. A proof holds for one side, one nonce, one run, and the address at
which the server accepted the connection: a program at another address cannot pass it on.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from typing import Final, Literal

NONCE: Final = r"[A-Za-z0-9_-]{16,64}"
_AUTHORIZATION: Final = re.compile(
    rb"\r\nauthorization: *lace +(%s) +([0-9a-f]{64}) *\r\n" % NONCE.encode(), re.IGNORECASE
)


def new_nonce() -> str:
    return secrets.token_urlsafe(24)


def address_of(name: tuple[str | int, ...]) -> str:
    """Return the address of an end of a connection, as a socket names it."""
    return f"{name[0]}:{name[1]}"


def proof(token: str, side: Literal["server", "reader"], nonce: str, run: str, address: str) -> str:
    """Return the proof of one side."""
    said = f"lace-watch\n{side}\n{nonce}\n{run}\n{address}"
    return hmac.new(token.encode(), said.encode(), "sha256").hexdigest()


def offer(token: str, nonce: str, run: str, address: str) -> str:
    """Return what a server answers to a nonce."""
    made = proof(token, "server", nonce, run, address)
    return json.dumps({"run": run, "proof": made}) + "\n"


def authorization(token: str, nonce: str, offered: bytes, address: str) -> str | None:
    """Return the header of a reader's requests; None where the server has proven nothing."""
    try:
        said = json.loads(offered)
        run, given = said["run"], said["proof"]
        known = hmac.compare_digest(given, proof(token, "server", nonce, run, address))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return f"Lace {nonce} {proof(token, 'reader', nonce, run, address)}" if known else None


def is_authorized(token: str, request: bytes, run: str, address: str) -> bool:
    """Return whether a request carries a reader's proof."""
    found = _AUTHORIZATION.search(request)
    if found is None:
        return False
    wanted = proof(token, "reader", found[1].decode(), run, address)
    return hmac.compare_digest(found[2], wanted.encode())
