"""Hashing, keys and signatures (spec 009)."""

from lace.crypto.keys import SigningKey
from lace.crypto.provider import CryptoProvider

__all__ = ["CryptoProvider", "SigningKey"]
