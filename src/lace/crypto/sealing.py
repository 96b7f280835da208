"""Text sealed with a passphrase: Argon2id makes the key, ChaCha20-Poly1305 the box.

Each sealing draws a new salt, so that no key is used twice. What is public beside the box is
authenticated with it. The parameters stand in the clear and have limits: a file of somebody else
cannot make the machine work for an hour.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lace import b64a
from lace.errors import Code, EncodingError, UsageError
from lace.extras import require
from lace.limits import FIXED

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

METHOD: Final = "argon2id+chacha20poly1305"
_SALT: Final = 16
_NONCE: Final = bytes(12)  # each key is used once


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedText:
    """A box, with what is needed beside the passphrase to open it."""

    salt: str
    box: str
    memory_kib: int = 65_536
    passes: int = 3
    lanes: int = 4

    def __post_init__(self) -> None:
        if not (
            8 * self.lanes <= self.memory_kib <= FIXED.sealing_kib
            and 1 <= self.passes <= FIXED.sealing_passes
            and 1 <= self.lanes <= FIXED.sealing_lanes
        ):
            raise UsageError("the parameters of the seal are out of bounds", code=Code.KEY_SEALED)


def seal_text(text: str, passphrase: str, public: str = "") -> SealedText:
    """Return text in a box that opens with a passphrase; ``public`` is what must stay beside it."""
    if not passphrase:
        raise UsageError("a passphrase has at least one character", code=Code.KEY_SEALED)
    empty = SealedText(salt=b64a.encode(os.urandom(_SALT)), box="")
    box = _cipher(empty, passphrase).encrypt(_NONCE, text.encode(), _beside(empty, public))
    return SealedText(salt=empty.salt, box=b64a.encode(box))


def open_text(sealed: SealedText, passphrase: str, public: str = "") -> str:
    """Return the text in a box; raise ``UsageError`` unless everything is as it was sealed."""
    cipher = _cipher(sealed, passphrase)
    from cryptography.exceptions import InvalidTag

    try:
        opened = cipher.decrypt(_NONCE, b64a.decode(sealed.box), _beside(sealed, public))
        return bytes(opened).decode()
    except (InvalidTag, EncodingError, ValueError):
        raise UsageError(
            "the passphrase is wrong, or the file was changed", code=Code.KEY_SEALED
        ) from None


def _cipher(sealed: SealedText, passphrase: str) -> ChaCha20Poly1305:
    require("passphrase", "a sealed keyring")
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    derive = Argon2id(
        salt=b64a.decode(sealed.salt),
        length=32,
        iterations=sealed.passes,
        lanes=sealed.lanes,
        memory_cost=sealed.memory_kib,
    )
    return ChaCha20Poly1305(derive.derive(passphrase.encode("utf-8", "surrogateescape")))


def _beside(sealed: SealedText, public: str) -> bytes:
    head = (METHOD, sealed.salt, sealed.memory_kib, sealed.passes, sealed.lanes)
    return "\n".join((*map(str, head), public)).encode()
