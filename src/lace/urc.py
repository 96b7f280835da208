"""Unified Resource Coordinates: hash addresses, coordinates, prefixes, versions (spec 110).

A coordinate names a place in an application's surface, never a single truth: many records may
share it. ``raw_tip_key`` orders them for display and candidates; policy decides what counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from lace import tai, text
from lace.errors import Code, EncodingError
from lace.ids import LinkTarget, RecordHash, Verifier, is_link_target, is_verifier
from lace.limits import DEFAULT_LIMITS, Limits
from lace.tai import Tai

_HASH_MARK: Final = "////"
_MARK: Final = "//"
_SELECTOR_SEGMENT: Final = "|"
_RESERVED_SEGMENTS: Final = frozenset((".", "..", _SELECTOR_SEGMENT))
_FIELDS: Final = ("Group", "App", "Name")
_TAI: Final = re.compile(tai.PATTERN.decode("ascii"))


@dataclass(frozen=True, slots=True)
class HashAddress:
    """One immutable record."""

    hash: LinkTarget
    """The record that it names."""

    def __str__(self) -> str:
        return f"{_HASH_MARK}{self.hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSelector:
    """Which versions at a coordinate; fields are filled from left to right, all filled is exact."""

    type: Literal["plex", "seal"] | None = None
    """Plexes or Seals; None for both."""
    verifier: Verifier | None = None
    """Who signed them."""
    tai: Tai | None = None
    """Their time."""
    hash: LinkTarget | None = None
    """The one version that is meant."""

    @property
    def is_exact(self) -> bool:
        """Whether it names one version."""
        return self.hash is not None

    def selects(self, *, hash: RecordHash, tai: Tai, signed_by: Verifier | None) -> bool:
        """Whether a Plex or Seal at the coordinate is among the versions this names."""
        if self.type is not None and _LETTERS[self.type] != hash[0]:
            return False
        wanted = (self.verifier, self.tai, self.hash)
        return all(
            w is None or w == got for w, got in zip(wanted, (signed_by, tai, hash), strict=True)
        )

    def __str__(self) -> str:
        parts = (self.type, self.verifier, self.tai, self.hash)
        return "/|" + "".join(f"/{part}" for part in parts if part is not None)


_LETTERS: Final = {"plex": "P", "seal": "S"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """A place: Group, App and Name exactly, and optionally which versions there."""

    group: str
    """The Group."""
    app: str
    """The App."""
    name: str
    """The Name."""
    selector: VersionSelector | None = None
    """Which versions there; None for all."""

    def matches(self, group: str, app: str, name: str) -> bool:
        """Return whether a place is this one."""
        return (group, app, name) == (self.group, self.app, self.name)

    def __str__(self) -> str:
        return f"//{self.group}//{self.app}//{self.name}{self.selector or ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Selector input, not an address: everything under a Name, or under an App (A38)."""

    group: str
    """The Group."""
    app: str
    """The App."""
    name: str
    """Empty for a whole App with its sub-apps; otherwise it ends with a slash."""

    def matches(self, group: str, app: str, name: str) -> bool:
        """Return whether a place lies under it."""
        if group != self.group:
            return False
        if self.name:
            return app == self.app and name.startswith(self.name)
        return app == self.app or app.startswith(f"{self.app}/")

    def __str__(self) -> str:
        return f"//{self.group}//{self.app}//{self.name}"


Urc = HashAddress | Coordinate | Prefix


def path_fault(path: str) -> Code | None:
    """Return why ``path`` cannot be a Group, App or Name, or None (G9)."""
    code = text.line_fault(path)
    if code is not None:
        return code
    segments = path.split("/")
    if "" in segments:
        return Code.PATH_EMPTY_SEGMENT
    return None if _RESERVED_SEGMENTS.isdisjoint(segments) else Code.PATH_RESERVED_SEGMENT


def parse_urc(address: str, limits: Limits = DEFAULT_LIMITS) -> Urc:
    """Return what ``address`` names, or raise ``EncodingError`` that says which field failed."""
    if len(address.encode("utf-8", "surrogatepass")) > limits.urc_bytes:
        _refuse(Code.URC_TOO_LONG, f"longer than {limits.urc_bytes} bytes")
    if address.startswith(_HASH_MARK):  # before coordinates: both begin with //
        target = address.removeprefix(_HASH_MARK)
        if not is_link_target(target):
            _refuse(Code.URC_HASH, f"{text.shown(target)} is not a typed record hash")
        return HashAddress(LinkTarget(target))
    if not address.startswith(_MARK):
        _refuse(Code.URC_FORM, f"{text.shown(address)} does not begin with //")
    fields = address.removeprefix(_MARK).split(_MARK)
    if len(fields) < len(_FIELDS):
        _refuse(Code.URC_FIELD, f"{_FIELDS[len(fields)]} is missing")
    if len(fields) > len(_FIELDS):
        _refuse(Code.URC_FIELD, "Name contains //, which only separates Group, App and Name")
    group, app, name = fields
    _check_path("Group", group)
    _check_path("App", app)
    if not name:
        return Prefix(group=group, app=app, name="")
    name, selector = _split_selector(name)
    if selector is None and name.endswith("/"):
        _check_path("Name", name[:-1])
        return Prefix(group=group, app=app, name=name)
    _check_path("Name", name)
    return Coordinate(group=group, app=app, name=name, selector=selector)


def raw_tip_key(tai: Tai, hash: RecordHash) -> tuple[str, str]:
    """Order versions at a coordinate: the greatest key is the raw tip (A39).

    TAI text has fixed width and hash text is ASCII, so text order is bytewise order.
    """
    return tai, hash


def _split_selector(name: str) -> tuple[str, VersionSelector | None]:
    segments = name.split("/")
    if _SELECTOR_SEGMENT not in segments:
        return name, None
    at = segments.index(_SELECTOR_SEGMENT)
    return "/".join(segments[:at]), _parse_selector(segments[at + 1 :])


def _parse_selector(parts: list[str]) -> VersionSelector:
    if not parts:
        return VersionSelector()
    kind, *rest = parts
    verifier: Verifier | None = None
    if kind == "seal":
        if rest:
            if not is_verifier(rest[0]):
                _refuse(Code.URC_SELECTOR, f"{text.shown(rest[0])} is not a verifier")
            verifier = Verifier(rest[0])
        rest = rest[1:]
    elif kind != "plex":
        _refuse(Code.URC_SELECTOR, f"{text.shown(kind)} is neither plex nor seal")
    instant = target = None
    if rest:
        if not _TAI.fullmatch(rest[0]):
            _refuse(Code.URC_SELECTOR, f"{text.shown(rest[0])} is not a TAI instant")
        instant = Tai(rest[0])
    if len(rest) > 1:
        if not is_link_target(rest[1]) or rest[1][0] != _LETTERS[kind]:
            _refuse(Code.URC_SELECTOR, f"{text.shown(rest[1])} is not the hash of a {kind}")
        target = LinkTarget(rest[1])
    if len(rest) > 2:
        _refuse(Code.URC_SELECTOR, f"{text.shown(rest[2])} follows a complete selector")
    return VersionSelector(
        type="seal" if kind == "seal" else "plex", verifier=verifier, tai=instant, hash=target
    )


def _check_path(field: str, path: str) -> None:
    code = path_fault(path)
    if code is not None:
        _refuse(code, f"{field} {text.shown(path)}: {code.meaning[0].lower()}{code.meaning[1:]}")


def _refuse(code: Code, message: str) -> NoReturn:
    raise EncodingError(message, code=code)
