"""Invitations: one line of text that says where to find a lace, who it is, and what belongs there.

An invitation is somebody else's word. It holds no secret and gives no right; it only spares the
typing. Whoever reads one is told what it says, and a line that was cut off or changed is refused.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from lace.crypto.native import digest
from lace.errors import Code, LaceError, UsageError
from lace.ids import is_verifier
from lace.limits import FIXED
from lace.policy.module import PolicyModule
from lace.rooms import Room
from lace.selectors import selector
from lace.transport.address import Address, Scheme, parse_address

__all__ = ["Invitation"]

_BEGIN: Final = "lace-invitation-1."
_LETTERS: Final = re.compile(r"[A-Za-z0-9_-]*")
_SUM_BYTES: Final = 6
_ROOM: Final = ("removed", "places", "reads", "delegation", "roles")


def is_invitation(text: str) -> bool:
    """Whether a text is meant to be an invitation; whether it can be used, ``read`` finds out."""
    return text.startswith(_BEGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """Where to meet whom, about what."""

    address: str
    """Where the peer listens."""
    select: str
    """A place, or rules."""
    expect: str | None = None
    """Whom the peer there must prove to be."""
    room: Room | None = None
    """The room at the place, with its choices."""

    def __post_init__(self) -> None:
        _check_dialled(parse_address(self.address))
        if self.expect is not None and not is_verifier(self.expect):
            _refuse("whom it expects is no verifier")
        if self.room is not None and self.room.prefix != self.select:
            _refuse("its room is at another place than what it selects")
        self.module()

    def module(self) -> PolicyModule:
        """Return the selector that it speaks of."""
        return selector(self.select) if self.room is None else self.room.module

    @property
    def text(self) -> str:
        """The one line; ``read`` takes it."""
        said: dict[str, Any] = {"address": self.address, "select": self.select}
        if self.expect is not None:
            said["expect"] = self.expect
        if self.room is not None:
            plain = Room(prefix=self.room.prefix, authority=self.room.authority)
            choices = {name: getattr(self.room, name) for name in _ROOM}
            said["room"] = {"authority": self.room.authority} | {
                name: value
                for name, value in choices.items()
                if value != getattr(plain, name) or (name == "roles" and not self.room.usual_roles)
            }
        # As they come: the first role of a room is the usual one, and the order of roles says it.
        body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        return _BEGIN + urlsafe_b64encode(_sum(body) + body).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Invitation:
        """Return the invitation in a text, or raise ``UsageError`` that says what is wrong."""
        line = "".join(text.split())  # letters break long lines
        if not line.startswith(_BEGIN):
            _refuse(f"an invitation begins with {_BEGIN}")
        if len(line) > FIXED.invitation_bytes:
            _refuse(f"it is longer than {FIXED.invitation_bytes} characters")
        packed = line.removeprefix(_BEGIN)
        if not _LETTERS.fullmatch(packed):
            _refuse("it has characters that do not belong there")
        try:
            content = urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        except (Base64Error, ValueError):
            _refuse("it is not complete")
        body = content[_SUM_BYTES:]
        if not body or content[:_SUM_BYTES] != _sum(body):
            _refuse("it is not complete, or was changed")
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            _refuse("it cannot be read")
        if not isinstance(said, dict):
            _refuse("it cannot be read")
        return cls._of(said)

    @classmethod
    def _of(cls, said: Mapping[str, Any]) -> Invitation:
        unknown = set(said) - {"address", "select", "expect", "room"}
        if unknown:
            _refuse("it says more than this version of Lace understands")
        for name in ("address", "select"):
            if not isinstance(said.get(name), str):
                _refuse(f"it does not say its {name}")
        expect = said.get("expect")
        if expect is not None and not isinstance(expect, str):
            _refuse("whom it expects is no verifier")
        try:
            room = None if said.get("room") is None else _room(said["select"], said["room"])
            return cls(address=said["address"], select=said["select"], expect=expect, room=room)
        except UsageError:
            raise
        except LaceError as error:
            _refuse(error.message)


def _room(prefix: str, said: Any) -> Room:
    if not isinstance(said, dict) or set(said) - {"authority", *_ROOM}:
        _refuse("its room cannot be understood")
    choices = dict(said)
    roles = choices.get("roles")
    if roles is not None:
        if not isinstance(roles, dict) or not all(
            isinstance(apps, list) and all(isinstance(app, str) for app in apps)
            for apps in roles.values()
        ):
            _refuse("the roles of its room cannot be understood")
        choices["roles"] = {role: tuple(apps) for role, apps in roles.items()}
    authority = choices.pop("authority", None)
    if not isinstance(authority, str):
        _refuse("its room has no authority")
    return Room(prefix=prefix, authority=authority, **choices)


def _check_dialled(address: Address) -> None:
    """Raise ``UsageError`` if nobody else can dial an address."""
    ported = address.scheme in {Scheme.TCP, Scheme.WS, Scheme.WSS}
    if address.scheme is Scheme.STDIO or address.is_wild or (ported and address.port == 0):
        raise UsageError(
            f"{address} is no address that others can dial",
            code=Code.ADDRESS_MALFORMED,
            hint="Give the name and the port at which they reach you: tcp:notes.example.org:4790.",
        )


def _sum(body: bytes) -> bytes:
    return digest(body)[:_SUM_BYTES]


def _refuse(message: str) -> NoReturn:
    raise UsageError(
        f"this invitation cannot be used: {message}", code=Code.SETTINGS_INVITATION
    ) from None
