"""Why is this (not) a record? Every rule in reading order, with what was expected and what found.

This reads the same grammar as ``validate`` line by line, slowly and with explanations. The first
failed check is the reason a rejected record is given; the whole list is what people are shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from lace import b64a, tai, text, urc
from lace.crypto import native
from lace.crypto.provider import CryptoProvider
from lace.errors import Code
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record import grammar

_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_NAME: Final = re.compile(rb"[^\x00-\x20\x7f:]+")
_DECIMAL: Final = re.compile(rb"0|[1-9][0-9]*")
_TAI: Final = re.compile(tai.PATTERN)
_KIND: Final = {b"B": "Blob", b"P": "Plex", b"S": "Seal"}
_EMBEDS: Final = {b"S": b"P", b"P": b"B"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule, applied to these bytes."""

    rule: str
    """What is demanded."""
    code: Code | None = None
    """Why it failed; None when it holds."""
    detail: str = ""
    """What was found, in words."""
    expected: str = ""
    """What should be there, where that can be said."""
    got: str = ""
    """What is there instead."""
    offset: int = 0
    """At which byte it stands."""

    @property
    def ok(self) -> bool:
        """Whether the rule holds."""
        return self.code is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All checks that could be made, in order; reading stops at the first fault in the headers."""

    checks: tuple[Check, ...]
    """What was checked, in order."""

    @property
    def fault(self) -> Check | None:
        """The first check that failed; None if the record is valid."""
        return next((check for check in self.checks if not check.ok), None)

    @property
    def headers_hold(self) -> bool:
        """Whether all headers follow the grammar, so that the end of the record is certain."""
        return any(check.rule == _HEADERS_DONE for check in self.checks)


_HEADERS_DONE: Final = "headers"


class _Stop(Exception):
    """Ends the reading: nothing after this fault can be told."""


def inspect_record(
    raw: bytes, limits: Limits = DEFAULT_LIMITS, provider: CryptoProvider = native
) -> Inspection:
    """Return what every rule says about ``raw``."""
    reader = _Reader(raw, limits)
    try:
        reader.read_headers()
        reader.read_data()
        reader.compare_digests(provider)
    except _Stop:
        pass
    return Inspection(checks=tuple(reader.checks))


class _Reader:
    def __init__(self, raw: bytes, limits: Limits) -> None:
        self.raw = raw
        self.limits = limits
        self.at = 0
        self.checks: list[Check] = []
        self.payloads: list[
            tuple[bytes, bytes, int]
        ] = []  # type letter, digest text, payload start
        self.signed: tuple[bytes, bytes] | None = None  # verifier text, signature text
        self.length = 0

    # --- headers ---

    def read_headers(self) -> None:
        letter = self._markline(None)
        while True:
            if letter == b"S":
                self._signature_headers()
            elif letter == b"P":
                self._plex_headers()
            else:
                self._blob_headers()
                break
            letter = self._markline(_EMBEDS[letter])
        self._pass(_HEADERS_DONE, f"{self.at} bytes of headers follow the grammar")

    def _markline(self, wanted: bytes | None) -> bytes:
        rest = self.raw[self.at : self.at + grammar.MARKLINE_BYTES]
        if wanted is None and rest.startswith(grammar.TRAILER_MARK):
            self._stop("markline", Code.RECORD_TRAILER_FORM, "the record is in trailer-hash form")
        if not rest.startswith(grammar.MARK):
            if grammar.MARK.startswith(rest):
                self._stop("markline", Code.RECORD_TRUNCATED, "the bytes end in a markline")
            self._stop(
                "markline", Code.RECORD_MARKLINE, "no markline here", "🖧: ", text.shown(rest[:12])
            )
        line = self._line("markline")
        letter, digest, suffix = line[6:7], line[8:-3], line[-3:]
        if letter not in _KIND or line[7:8] != b"." or suffix != b".H3":
            self._stop(
                "markline",
                Code.RECORD_MARKLINE,
                "the markline names no record of a supported format",
                "[BPS].<43 B64A>.H3",
                text.shown(line[6:]),
            )
        code = b64a.fault(digest)
        if code is not None or len(digest) != 43:
            why = code.meaning if code else f"{len(digest)} characters"
            self._stop("markline", Code.RECORD_MARKLINE, f"the digest is malformed: {why}")
        if wanted is not None and letter != wanted:
            self._stop(
                "markline",
                Code.RECORD_TYPE,
                "the embedded record is of the wrong type",
                _KIND[wanted],
                _KIND[letter],
            )
        self._pass("markline", f"{_KIND[letter]} {line[6:].decode()}")
        self.payloads.append((letter, digest, self.at))
        return letter

    def _signature_headers(self) -> None:
        verifier = self._fixed("Signed-By")
        if (
            not verifier.startswith(b"V.")
            or not verifier.endswith(b".H3")
            or len(verifier) != 48
            or b64a.fault(verifier[2:-3])
        ):
            self._stop(
                "Signed-By",
                Code.RECORD_VERIFIER,
                "not a verifier text",
                "V.<43 B64A>.H3",
                text.shown(verifier),
            )
        self._pass("Signed-By", verifier.decode())
        signature = self._fixed("Signature")
        if len(signature) != 86 or b64a.fault(signature):
            self._stop(
                "Signature",
                Code.RECORD_SIGNATURE_FORM,
                "not a signature text",
                "86 B64A characters",
                text.shown(signature),
            )
        self._pass("Signature", "64 bytes")
        self.signed = (verifier[2:-3], signature)

    def _plex_headers(self) -> None:
        for name in ("Group", "App", "Name"):
            value = self._as_text(name, self._fixed(name))
            code = urc.path_fault(value)
            if code is not None:
                self._stop(name, code, f"{name} {text.shown(value)} is not a path", "", "")
            self._pass(name, value)
        instant = self._fixed("TAI")
        if not _TAI.fullmatch(instant):
            self._stop(
                "TAI",
                Code.TAI_MALFORMED,
                "TAI is malformed",
                "ssssssssss:nnnnnnnnn",
                text.shown(instant),
            )
        self._pass("TAI", instant.decode())
        self._extra_headers()

    def _extra_headers(self) -> None:
        previous = b""
        count = 0
        while not self.raw.startswith(grammar.MARK, self.at):
            start = self.at
            line = self._line("extra header")
            name, colon, value = line.partition(b": ")
            self.at, after = start, self.at  # a fault is reported at the start of its line
            if not colon or not _NAME.fullmatch(name) or not value:
                self._stop(
                    "extra header",
                    Code.RECORD_HEADER_SYNTAX,
                    "a header line is malformed, or the embedded Blob is missing",
                    "Name: value",
                    text.shown(line),
                )
            shown = self._as_text("extra header", name)
            if name in grammar.RESERVED_NAMES:
                self._stop(shown, Code.RECORD_HEADER_RESERVED, f"{shown} is a reserved name")
            if name < previous:
                self._stop(
                    shown,
                    Code.RECORD_HEADER_ORDER,
                    f"{shown} stands after a greater name",
                    "names in ascending order",
                    f"{shown} after {previous.decode()}",
                )
            count += 1
            if count > self.limits.extra_headers:
                self._stop(
                    "extra headers",
                    Code.RECORD_HEADER_COUNT,
                    "too many extra headers",
                    f"at most {self.limits.extra_headers}",
                    "more",
                )
            self._pass(shown, self._as_text(shown, value))
            previous = name
            self.at = after

    def _blob_headers(self) -> None:
        digits = self._fixed("Data-Length")
        if not _DECIMAL.fullmatch(digits):
            self._stop(
                "Data-Length",
                Code.RECORD_DATA_LENGTH,
                "Data-Length is malformed",
                "decimal digits, no leading zero",
                text.shown(digits),
            )
        limit = self.limits.blob_bytes
        if len(digits) > len(str(limit)) or int(digits) > limit:
            self._stop(
                "Data-Length",
                Code.RECORD_DATA_TOO_LARGE,
                "the data is over the limit",
                f"at most {limit} bytes",
                text.shown(digits),
            )
        if self._line("blank line"):
            self._stop("blank line", Code.RECORD_HEADER_SYNTAX, "no blank line after Data-Length")
        self._pass("Data-Length", digits.decode())
        self.length = int(digits)

    # --- data, digests, signature ---

    def read_data(self) -> None:
        got = len(self.raw) - self.at
        expected = f"{self.length} bytes"
        if got < self.length:
            detail = f"the data ends {self.length - got} bytes early"
            self._stop("data", Code.RECORD_TRUNCATED, detail, expected, f"{got} bytes")
        if got > self.length:
            self.at += self.length
            detail = f"{got - self.length} bytes follow the record"
            self._stop("data", Code.RECORD_TRAILING_BYTES, detail, expected, f"{got} bytes")
        self._pass("data", expected)

    def compare_digests(self, provider: CryptoProvider) -> None:
        plex_digest = b""
        for letter, named, start in reversed(self.payloads):  # innermost first
            digest = provider.digest(self.raw[start:])
            if letter == b"P":
                plex_digest = digest
            got = b64a.encode_digest(digest)
            kind = _KIND[letter]
            ok = got == named
            expected_id, got_id = (f"{letter.decode()}.{d.decode()}.H3" for d in (named, got))
            self.checks.append(
                Check(
                    rule=f"{kind} digest",
                    code=None if ok else Code.RECORD_HASH_MISMATCH,
                    detail=got_id if ok else f"{kind}: expected {expected_id}, got {got_id}",
                    expected=expected_id,
                    got=got_id,
                    offset=start,
                )
            )
        if self.signed is not None:
            verifier, signature = map(b64a.decode_trusted, self.signed)
            ok = provider.verify(verifier, plex_digest, signature)
            name = f"V.{self.signed[0].decode()}.H3"
            self.checks.append(
                Check(
                    rule="signature",
                    code=None if ok else Code.RECORD_SIGNATURE,
                    detail=f"{name} signed this Plex"
                    if ok
                    else f"expected a signature by {name} over the Plex digest, got another",
                    expected=f"signature by {name}",
                    got="holds" if ok else "does not hold",
                    offset=grammar.MARKLINE_BYTES,
                )
            )

    # --- reading ---

    def _line(self, rule: str) -> bytes:
        limit = self.limits.header_line_bytes
        end = self.raw.find(b"\n", self.at, self.at + limit + 1)
        if end < 0:
            if len(self.raw) - self.at > limit:
                self._stop(
                    rule,
                    Code.RECORD_HEADER_TOO_LONG,
                    "a header line is too long",
                    f"at most {limit} bytes",
                    "more",
                )
            self._control_free(rule, self.raw[self.at :])
            self._stop(rule, Code.RECORD_TRUNCATED, "the bytes end inside the headers")
        line = self.raw[self.at : end]
        self._control_free(rule, line)
        self.at = end + 1
        return line

    def _control_free(self, rule: str, line: bytes) -> None:
        found = _CONTROL.search(line)
        if found:
            self._stop(
                rule,
                Code.RECORD_HEADER_CONTROL,
                "a header line has a control byte",
                "",
                f"0x{found.group()[0]:02X} at byte {found.start()} of the line",
            )

    def _fixed(self, name: str) -> bytes:
        """Return the value of the header that must stand here."""
        start = self.at
        line = self._line(name)
        label = name.encode()
        value = line.removeprefix(label + b": ")
        if len(value) == len(line) or not value:
            self.at = start
            if line.startswith(label + b":"):
                self._stop(
                    name,
                    Code.RECORD_HEADER_SYNTAX,
                    f"{name} has no value after ': '",
                    f"{name}: <value>",
                    text.shown(line),
                )
            self._stop(
                name,
                Code.RECORD_HEADER_MISSING,
                f"{name} is missing here",
                f"{name}: <value>",
                text.shown(line),
            )
        return value

    def _as_text(self, rule: str, value: bytes) -> str:
        try:
            decoded = value.decode()
        except UnicodeDecodeError as error:
            self._stop(rule, Code.TEXT_UTF8, f"byte {error.start} of {rule} is not UTF-8")
        code = text.fault(decoded)
        if code is not None:
            self._stop(rule, code, f"{rule}: {code.meaning}", "", ascii(decoded[:60]))
        return decoded

    def _pass(self, rule: str, detail: str) -> None:
        self.checks.append(Check(rule=rule, detail=detail, offset=self.at))

    def _stop(
        self, rule: str, code: Code, detail: str, expected: str = "", got: str = ""
    ) -> NoReturn:
        if expected and got:
            detail = f"{detail}: expected {expected}, got {got}"
        elif got:
            detail = f"{detail}: {got}"
        self.checks.append(
            Check(rule=rule, code=code, detail=detail, expected=expected, got=got, offset=self.at)
        )
        raise _Stop
