"""Addresses: ``stdio``, ``unix:/path``, ``tcp:host:port``, ``ws:host``, ``wss:host`` (060, A41).

Every address has one canonical spelling, which proofs and rules compare: the host in lower case,
the port of tcp always, that of ws and wss only where it is not the usual one, the path always.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Final, NoReturn

from lace.errors import Code, EncodingError
from lace.limits import DEFAULT_LIMITS
from lace.text import shown

PATH: Final = "/interlace"
_LONGEST_UNIX_PATH: Final = 107  # what a socket address can hold
_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?(?:\.[A-Za-z0-9_-]+)*\.?")
_LONGEST_HOST: Final = 253
_PLACE: Final = re.compile(r"(\[[^\[\]]*\]|[^:/\[\]]*)(?::([^/]*))?(/.*)?")
_PORT: Final = re.compile(r"0|[1-9][0-9]{0,4}")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_WILD: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 (they are recognised, not bound)


class Scheme(StrEnum):
    STDIO = "stdio"
    """Standard input and output."""
    UNIX = "unix"
    """A Unix socket."""
    TCP = "tcp"
    """TCP."""
    WS = "ws"
    """A WebSocket."""
    WSS = "wss"
    """A WebSocket over TLS."""


_PORTS: Final = {Scheme.TCP: 4790, Scheme.WS: 80, Scheme.WSS: 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a stream leads to; ``str`` gives the canonical spelling."""

    scheme: Scheme
    """What kind of stream it is."""
    host: str = ""
    """Without brackets, in lower case."""
    port: int = 0
    """Of tcp, ws and wss."""
    path: str = ""
    """Of a Unix socket."""

    def __str__(self) -> str:
        match self.scheme:
            case Scheme.STDIO:
                return "stdio"
            case Scheme.UNIX:
                return f"unix:{self.path}"
            case Scheme.TCP:
                return f"tcp:{self._host}:{self.port}"
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}:{self._host}{port}{PATH}"

    @property
    def url(self) -> str:
        """The same place as WebSocket libraries write it."""
        return str(self).replace(":", "://", 1)

    @property
    def is_wild(self) -> bool:
        """Whether it stands for every interface: good for listening, no name to be dialled."""
        return self.host in _WILD

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str) -> Address:
    """Return the address that a text stands for, or raise ``EncodingError`` saying why not."""
    if len(text.encode("utf-8", "surrogatepass")) > DEFAULT_LIMITS.urc_bytes:
        _refuse("an address that is far too long")
    name, colon, rest = text.partition(":")
    try:
        scheme = Scheme(name)
    except ValueError:
        _refuse(f"{shown(text)} has no known scheme")
    if scheme is Scheme.STDIO:
        if colon:
            _refuse("stdio stands alone")
        return Address(scheme=scheme)
    if scheme is Scheme.UNIX:
        return Address(scheme=scheme, path=_unix_path(rest))
    if rest.startswith("//"):
        if scheme is Scheme.TCP:
            _refuse("write tcp:host:port, without slashes")
        rest = rest[2:]
    return _place(scheme, rest, text)


def _place(scheme: Scheme, rest: str, text: str) -> Address:
    if "?" in rest or "#" in rest:
        _refuse(f"{shown(text)} has a query or a fragment, which addresses have not")
    parts = _PLACE.fullmatch(rest)
    if parts is None:
        _refuse(f"{shown(text)} is not host[:port]; an IPv6 host stands in brackets")
    host, port, path = parts.groups()
    if path is not None and (scheme is Scheme.TCP or path != PATH):
        _refuse(f"{shown(text)} has a path; only ws and wss have one, and it is {PATH}")
    number = _PORTS[scheme]
    if port is not None:
        if not _PORT.fullmatch(port) or int(port) > 65535:
            _refuse(f"{shown(port)} is not a port")
        number = int(port)
    return Address(scheme=scheme, host=_canonical_host(host), port=number)


def _canonical_host(host: str) -> str:
    if host.startswith("["):
        try:
            return str(IPv6Address(host[1:-1]))
        except ValueError:
            _refuse(f"{shown(host)} is not an IPv6 host")
    if len(host) > _LONGEST_HOST or not _HOST.fullmatch(host):
        _refuse(f"{shown(host)} is not a host name (write one with other letters as xn--…)")
    return host.lower().removesuffix(".")


def _unix_path(path: str) -> str:
    if not path.startswith("/") or _CONTROL.search(path):
        _refuse("a Unix socket has an absolute path")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        _refuse("the path of a Unix socket is not text")
    if size > _LONGEST_UNIX_PATH:
        _refuse(f"the path of a Unix socket has at most {_LONGEST_UNIX_PATH} bytes, not {size}")
    return path


def _refuse(message: str) -> NoReturn:
    raise EncodingError(message, code=Code.ADDRESS_MALFORMED)
