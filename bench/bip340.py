"""BIP340 as libsecp256k1 does it by itself: the floor of signing and verifying.

The library is the very one that Lace calls, and each call is one function of it.
"""

from __future__ import annotations

from btclib_libsecp256k1 import ffi, lib
from btclib_libsecp256k1.context import ctx


class VerifyingKey:
    """A public key, parsed once."""

    def __init__(self, keypair: object) -> None:
        self._key = ffi.new("secp256k1_xonly_pubkey *")
        lib.secp256k1_keypair_xonly_pub(ctx, self._key, ffi.NULL, keypair)

    def verify(self, signature: bytes, digest: bytes) -> bool:
        return bool(lib.secp256k1_schnorrsig_verify(ctx, signature, digest, 32, self._key))


class SecretKey:
    """A secret key that checks each signature that it makes."""

    def __init__(self, secret: bytes) -> None:
        self._pair = ffi.new("secp256k1_keypair *")
        if not lib.secp256k1_keypair_create(ctx, self._pair, secret):
            raise ValueError("not a secret key")
        self.public = VerifyingKey(self._pair)

    def sign(self, digest: bytes, randomness: bytes) -> bytes:
        signature = ffi.new("unsigned char[64]")
        lib.secp256k1_schnorrsig_sign32(ctx, signature, digest, self._pair, randomness)
        made = bytes(ffi.buffer(signature, 64))
        if not self.public.verify(made, digest):
            raise RuntimeError("a signature that was just made does not hold")
        return made
