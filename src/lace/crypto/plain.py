"""What stands in for compiled cryptography where none is installed: it verifies, but never signs.

The time that plain Python takes depends on the numbers, so a secret could be learned by measuring
it. Signing is therefore refused. Verification and hashes are right, and slow.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NoReturn

from lace.crypto import reference
from lace.crypto.provider import Claim, PlainPythonWarning
from lace.errors import Code, UsageError

verify = reference.verify


def verify_all(claims: Sequence[Claim], /) -> list[bool]:
    """Say of each signature whether it holds."""
    return [verify(*claim) for claim in claims]


def public_point(_scalar: bytes) -> bytes:
    """Refuse: a secret takes compiled code."""
    _refuse()


def negate(_scalar: bytes) -> bytes:
    """Refuse: a secret takes compiled code."""
    _refuse()


def multiply_add(_scalar: bytes, _factor: bytes, _summand: bytes) -> bytes:
    """Refuse: a secret takes compiled code."""
    _refuse()


def _refuse() -> NoReturn:
    raise UsageError("no key is used without a compiled libsecp256k1", code=Code.KEY_LIBRARY)


def warn(*, library: bool, hashes: bool, reasons: Mapping[str, str]) -> None:
    """Warn of what is not compiled: what follows, what to install, why no library can be used."""
    from multiprocessing import parent_process

    if parent_process() is not None:
        return  # a process that helps another one leaves the warning to that one
    missing = [*([] if library else ["btclib_libsecp256k1"]), *([] if hashes else ["blake3"])]
    signing = "" if library else ", and no key can be used"
    other_way = "" if library else ", or install libsecp256k1 of your system"
    faults = "; ".join(f"{source} cannot be used: {reason}" for source, reason in reasons.items())
    warnings.warn(
        "compiled cryptography is missing: plain Python does its work, hundreds of times "
        f"slower{signing}. Run: pip install {' '.join(missing)}{other_way}"
        f"{faults and f' ({faults})'}",
        PlainPythonWarning,
        stacklevel=3,
    )
