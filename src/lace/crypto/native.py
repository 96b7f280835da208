"""The provider that everything uses: compiled code where there is some, plain Python elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lace.crypto import hashing
from lace.crypto.hashing import derive, digest, digests
from lace.crypto.libsecp256k1 import LIBRARY, UNUSABLE

if TYPE_CHECKING or LIBRARY is not None:
    from lace.crypto.curve import multiply_add, negate, public_point, verify, verify_all
else:
    from lace.crypto.plain import multiply_add, negate, public_point, verify, verify_all

__all__ = [
    "derive", "digest", "digests", "multiply_add", "negate", "public_point", "verify", "verify_all",
]  # fmt: skip

if LIBRARY is None or not hashing.COMPILED:
    from lace.crypto.plain import warn

    warn(library=LIBRARY is not None, hashes=hashing.COMPILED, reasons=UNUSABLE)
