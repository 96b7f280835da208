"""The text rule: NFC under one pinned Unicode version, and the quoting of fact constants.

Names and values that enter Lace must mean the same on every machine. Python's own tables change
with its version, so the rule is judged under Unicode 16.0 (``lace.unicode``, decision "Unicode
pin"): a code point unassigned there is refused, because a later version may give it a
decomposition. Private use is allowed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from lace.errors import Code, EncodingError

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""What Unicode calls Default_Ignorable_Code_Point, and Python all the same printable."""
_SECRET = re.compile(r"&\.[0-9A-Z_a-z~]{16,}(?:\.H3)?")


def fault(text: str) -> Code | None:
    """Return why ``text`` breaks the text rule, or None; control characters are not judged here."""
    if text.isascii():
        return None
    from lace.unicode import category, normalize  # ASCII, by far the most text, needs no tables

    categories = set(map(category, set(text)))
    if "Cs" in categories:
        return Code.TEXT_UTF8  # a lone surrogate has no UTF-8 form
    if "Cn" in categories:
        return Code.TEXT_UNASSIGNED
    if _disorder(text) is not None:
        return Code.TEXT_NFC
    return None if normalize("NFC", text) == text else Code.TEXT_NFC


def _disorder(text: str) -> int | None:
    """Return the first place that alone forbids NFC, or None; what has none is normalised quickly.

    To put a run of marks in order takes time that grows with the square of its length. In NFC each
    run is in order, and no character stands that decomposes by itself. So this is looked at first.
    """
    from lace.unicode import combining, normalize

    classes: dict[str, int] = {}
    never: set[str] = set()
    for character in set(text):
        classes[character] = combining(character)
        if normalize("NFC", character) != character:
            never.add(character)
    if never:
        return next(i for i, character in enumerate(text) if character in never)
    if len({*classes.values()} - {0}) < 2:
        return None
    before = 0
    for i, character in enumerate(text):
        now = classes[character]
        if 0 < now < before:
            return i
        before = now
    return None


def fault_at(text: str) -> tuple[Code, int] | None:
    """Return why and where ``text`` first breaks the text rule, or None."""
    code = fault(text)
    if code is None:
        return None
    from lace.unicode import normalize

    if code is Code.TEXT_NFC:
        disorder = _disorder(text)
        head = text if disorder is None else text[:disorder]
        pairs = zip(head, normalize("NFC", head), strict=False)
        last = len(text) - 1 if disorder is None else disorder
        return code, next((i for i, (a, b) in enumerate(pairs) if a != b), last)
    return code, next(i for i, character in enumerate(text) if fault(character) is code)


def line_fault(text: str) -> Code | None:
    """Return why ``text`` cannot be one non-empty line of text, or None."""
    if not text:
        return Code.TEXT_EMPTY
    if _CONTROL.search(text):
        return Code.TEXT_CONTROL
    return fault(text)


def decode_utf8(data: bytes) -> str:
    """Decode strict UTF-8, or raise ``EncodingError`` saying where it breaks."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not valid UTF-8"
        raise EncodingError(message, code=Code.TEXT_UTF8) from None


def quote(value: str) -> str:
    r"""Return ``value`` as a constant of fact text; only ``\`` and ``'`` are escaped (G6)."""
    if "\\" in value or "'" in value:
        value = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{value}'"


def fact_line(predicate: str, arguments: Iterable[str]) -> str:
    """Return the one spelling of a fact, without the line break."""
    return f"{predicate}({','.join(map(quote, arguments))})"


def redact(message: str) -> str:
    """Return a message without anything that looks like a signing secret."""
    return _SECRET.sub("&.…", message)


def safe(text: str, kept: str = "\n\t") -> str:
    """Return text that does nothing to a terminal: what cannot be seen is shown as a dot.

    Control characters (C0, C1), characters that a program may ignore, such as marks of direction,
    fillers and variation selectors, private use, lone surrogates and what is not assigned go.
    Spaces of all kinds stay, and what is ``kept``.
    """
    if text.isprintable() and (text.isascii() or _UNSEEN.search(text) is None):
        return text
    return "".join(c if is_safe(c) or c in kept else "·" for c in text)


def is_safe(character: str) -> bool:
    """Whether a character does nothing but show itself, in the same way everywhere."""
    if character.isprintable():
        return _UNSEEN.match(character) is None
    return unicodedata.category(character) == "Zs"


def shown(value: str | bytes, limit: int = 60) -> str:
    """Return a bounded, printable rendering of untrusted text for messages."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    text = redact(text)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return ascii(cut) if not cut.isprintable() else f"'{cut}'"
