"""Records taken apart into layers of lines, changed at will, and hashed again.

Random bytes never have right digests, so almost all of the grammar would stay unreached. A
``Shape`` knows its lines and marklines because it was made from them; ``assemble`` writes it down
from the inside out with a right digest, and if wanted a right signature, in every layer. Then only
the grammar decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fuzzing import Choices
from lace import b64a
from lace.crypto.keys import SigningKey
from lace.crypto.native import digest
from lace.record.grammar import MARK, RESERVED_NAMES, TRAILER_MARK

KEY: Final = SigningKey(b"\x01" * 32)
_AUX: Final = b"\x02" * 32
_SIGN_HERE: Final = b"Signature: (made by assemble)"

#: Bytes that some rule is about, or that look as if one were.
FRAGMENTS: Final = (
    b"\x00", b"\x1f", b"\x7f", b"\r", b"\t", b"\n", b"\n\n", b" ", b":", b": ", MARK, TRAILER_MARK,
    b"/", b"//", b".", b"..", b"/.", b"/./", b"/../", b"/..a", b"|", b"/|", b"/|/", b"|a",
    b"\xff", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    *(
        text.encode()
        for text in (
            "é", "e\u0301", "\u0301", "\u0301\u0327", "=\u0338", "\u0344", "\u212b", "\ufb1d",
            "\u1100\u1161", "\u1161", "\uac00", "\uac00\u11a8", "\U000105d2\u0307", "\U000105c9",
            "\u0378", "\ufffe", "\U0010ffff", "\ue000", "\x80", "\x85", "\u2028", "\ufeff",
        )
    ),
)  # fmt: skip
_LENGTHS: Final = (
    b"", b"0", b"00", b"01", b"-0", b"+1", b" 1", b"1 ", b"1_0", b"1e1", b"0x1", "١".encode(),
    b"9" * 14, b"9" * 15, b"9" * 16, b"9" * 900, b"33554432", b"33554433",
)  # fmt: skip
_SEGMENTS: Final = (
    b"a", b"b.c", b"...", b".a", b"|a", b"||", " é".encode(), b" ", b"", b".", b"..", b"|", b"\x1f",
)  # fmt: skip
_MARKS: Final = (
    b"B.%s.H3", b"P.%s.H3", b"S.%s.H3", b"b.%s.H3", b"V.%s.H3", b".%s.H3", b"B%s.H3", b"S.%s.H4",
    b"P.%s", b"%s", b"P.%s.H3 ", b"S.%s\r.H3", b"B.%s~.H3", b"P.%.42s.H3", b"S.%.42s~.H3",
)  # fmt: skip
_EXTRAS: Final = (
    b"Author: Ada", b"Ref+Link: reply P." + b"0" * 43 + b".H3", b"Tag: a", b"Tag: b",
    "Überschrift: Größe".encode(), "题: 好".encode(), "\ue000: \u0301".encode(),
)  # fmt: skip


@dataclass
class Layer:
    """One markline, where ``%s`` stands for the digest, and the lines up to the next layer."""

    mark: bytes
    lines: list[bytes]


@dataclass
class Shape:
    """Layers, outermost first, and the data behind them all."""

    layers: list[Layer]
    data: bytes

    def assemble(self) -> bytes:
        """Return the bytes with every digest and every wanted signature made anew."""
        body, inner = self.data, bytes(32)
        for layer in reversed(self.layers):
            lines = (_signature(inner) if line == _SIGN_HERE else line for line in layer.lines)
            payload = b"".join(line + b"\n" for line in lines) + body
            inner = digest(payload)
            body = MARK + layer.mark % b64a.encode_ascii(inner) + b"\n" + payload
        return body


def valid_shape(kind: str, extras: tuple[bytes, ...] = (), data: bytes = b"data") -> Shape:
    """Return a Blob, Plex or Seal (``B``, ``P``, ``S``) that is valid as it stands."""
    fixed = [
        b"Group: dev/team",
        b"App: notes",
        "Name: été/1".encode(),
        b"TAI: 1700000000:000000001",
    ]
    signed_by = b"Signed-By: " + KEY.verifier.encode()
    layers = [
        Layer(b"S.%s.H3", [signed_by, _SIGN_HERE]),
        Layer(b"P.%s.H3", [*fixed, *sorted(extras, key=_name)]),
        Layer(b"B.%s.H3", [b"Data-Length: %d" % len(data), b""]),
    ]
    return Shape(layers["SPB".index(kind) :], data)


def chosen_shape(choices: Choices) -> Shape:
    """Return a valid shape after a few changes, or after none."""
    kind = choices.pick("SSSPPPPB")
    count = choices.pick((0, 0, 1, 2, 3, 4, 7, 7, 7, 64, 512))
    extras = _EXTRAS[:count] if count < 64 else tuple(b"X%03d: v" % i for i in range(count))
    data = choices.pick((b"data", b"data", b"", MARK + b"\n\n", b"\n\n", bytes(64), bytes(1 << 16)))
    shape = valid_shape(kind, extras, data)
    for _ in range(choices.number(0, 5)):
        if shape.layers:
            choices.pick(_CHANGES)(shape, choices)
    return shape


# --- changes --------------------------------------------------------------------------------------


def _insert_fragment(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    line = lines[index]
    at = choices.number(0, len(line))
    lines[index] = line[:at] + choices.pick(FRAGMENTS) + line[at:]


def _change_bytes(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    line = lines[index]
    at = choices.number(0, len(line))
    lines[index] = line[:at] + choices.bytes(8) + line[at + choices.number(0, 8) :]


def _set_value(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    pieces = (choices.pick((b"a", *FRAGMENTS)) for _ in range(choices.number(0, 4)))
    lines[index] = _name(lines[index]) + b": " + b"".join(pieces)


def _set_path(shape: Shape, choices: Choices) -> None:
    index = choices.number(0, 2)
    path = b"/".join(choices.pick(_SEGMENTS) for _ in range(choices.number(1, 4)))
    for layer in shape.layers:
        if len(layer.lines) >= 4:
            layer.lines[index] = _name(layer.lines[index]) + b": " + path


def _set_name(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    name = choices.pick((b"", b"A", b"Z", b"a b", *sorted(RESERVED_NAMES), *FRAGMENTS))
    lines[index] = name + lines[index][len(_name(lines[index])) :]


def _pad(shape: Shape, choices: Choices) -> None:
    """Make a line as long as some limit, or nearly so."""
    lines, index = _line(shape, choices)
    size = choices.pick((97, 98, 128, 129, 1024, 1025))
    unit = choices.pick((b"a", b"/a", "é".encode(), "\u0301".encode()))
    missing = max(0, size - len(lines[index]))
    lines[index] += unit * (missing // len(unit)) + b"a" * (missing % len(unit))


def _delete(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    del lines[index]


def _duplicate(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    lines[index:index] = [lines[index]] * choices.pick((1, 2, 510))


def _swap(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    others, other = _line(shape, choices)
    lines[index], others[other] = others[other], lines[index]


def _add_extra(shape: Shape, choices: Choices) -> None:
    lines, index = _line(shape, choices)
    lines.insert(index, choices.pick((choices.bytes(20), *_EXTRAS)))


def _sort_extras(shape: Shape, _: Choices) -> None:
    for layer in shape.layers:
        layer.lines[4:] = sorted(layer.lines[4:], key=_name)


def _set_length(shape: Shape, choices: Choices) -> None:
    true = len(shape.data)
    digits = choices.pick((b"%d" % true, b"%d" % (true + 1), b"%d" % (true - 1), *_LENGTHS))
    shape.layers[-1].lines[:1] = [b"Data-Length: " + digits]


def _set_data(shape: Shape, choices: Choices) -> None:
    shape.data = choices.pick(
        (choices.bytes(100), *FRAGMENTS, bytes(64), bytes(65), shape.assemble())
    )
    shape.layers[-1].lines[:1] = [b"Data-Length: %d" % len(shape.data)]


def _set_mark(shape: Shape, choices: Choices) -> None:
    choices.pick(shape.layers).mark = choices.pick(_MARKS)


def _set_layers(shape: Shape, choices: Choices) -> None:
    """Leave a layer out, or nest one that does not belong there."""
    layer = choices.pick(shape.layers)
    if choices.number(0, 1):
        shape.layers.remove(layer)
    else:
        at = choices.number(0, len(shape.layers))
        shape.layers.insert(at, Layer(layer.mark, list(layer.lines)))


_CHANGES: Final[tuple[Callable[[Shape, Choices], None], ...]] = (
    _insert_fragment, _change_bytes, _set_value, _set_path, _set_name, _pad, _delete, _duplicate,
    _swap, _add_extra, _sort_extras, _set_length, _set_data, _set_mark, _set_layers,
)  # fmt: skip


def _line(shape: Shape, choices: Choices) -> tuple[list[bytes], int]:
    """Return the lines of some layer, at least one, and the index of one of them."""
    plex = shape.layers[-2:-1] * 3  # most rules are about its lines
    lines = choices.pick((*plex, *shape.layers)).lines
    if not lines:
        lines.append(b"")
    return lines, choices.number(0, len(lines) - 1)


def _name(line: bytes) -> bytes:
    return line.partition(b": ")[0]


def _signature(message: bytes) -> bytes:
    return b"Signature: " + b64a.encode_ascii(KEY.sign(message, _AUX))
