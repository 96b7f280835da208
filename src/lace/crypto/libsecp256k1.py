"""The C library libsecp256k1: where it is found, and the memory that it works on.

There are three sources, tried in this order: the package ``btclib_libsecp256k1``, which Lace
installs where it has wheels; the package ``coincurve``, which earlier releases of Lace installed;
the library of the system. All of them are the same library, and give the same answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from lace.crypto.provider import G

# What is used of the library, with the types of the arguments: a pointer, a size, a number.
FUNCTIONS: Final = {
    "secp256k1_context_create": "i",
    "secp256k1_context_randomize": "pp",
    "secp256k1_ec_pubkey_cmp": "ppp",
    "secp256k1_ec_pubkey_combine": "ppps",
    "secp256k1_ec_pubkey_create": "ppp",
    "secp256k1_ec_pubkey_parse": "ppps",
    "secp256k1_ec_pubkey_serialize": "ppppi",
    "secp256k1_ec_pubkey_tweak_add": "ppp",
    "secp256k1_ec_pubkey_tweak_mul": "ppp",
    "secp256k1_ec_seckey_negate": "pp",
    "secp256k1_ec_seckey_tweak_add": "ppp",
    "secp256k1_ec_seckey_tweak_mul": "ppp",
    "secp256k1_ecdsa_recover": "pppp",
    "secp256k1_ecdsa_recoverable_signature_parse_compact": "pppi",
}
COMPRESSED: Final = 258
"""SECP256K1_EC_COMPRESSED: one of the packages leaves out the constants of the C header."""
_ANY_USE: Final = 769
"""SECP256K1_CONTEXT_SIGN and _VERIFY: versions before 0.2 need it, later ones accept it."""
_POINT_BYTES: Final = 64
_SIGNATURE_BYTES: Final = 65
_VERSIONS: Final = (6, 5, 2, 1)
"""Versions of the binary interface, newest first. What Lace uses is the same in all of them."""


class Memory(Protocol):
    """Memory that the library reads and writes."""

    def point(self) -> Any:
        """Return a pointer to a new ``secp256k1_pubkey``."""

    def signature(self) -> Any:
        """Return a pointer to a new ``secp256k1_ecdsa_recoverable_signature``."""

    def places(self, points: Sequence[Any]) -> Any:
        """Return a pointer to an array of pointers to points, which must live as long."""

    def octets(self, content: bytes) -> tuple[Any, Any]:
        """Return a pointer to a copy of bytes, and a view of it: a slice of the view is bytes."""

    def size(self, value: int) -> Any:
        """Return a pointer to a new ``size_t``."""


@dataclass(frozen=True, slots=True)
class Library:
    """The library of one source, with a context of its own."""

    source: str
    lib: Any
    """It has the functions, under the names of the C header."""
    memory: Memory
    context: Any


class _CffiMemory:
    def __init__(self, ffi: Any) -> None:
        self._ffi = ffi
        self._octets = ffi.typeof("unsigned char[]")  # its name takes longer to read than a copy

    def point(self) -> Any:
        return self._ffi.new("secp256k1_pubkey *")

    def signature(self) -> Any:
        return self._ffi.new("secp256k1_ecdsa_recoverable_signature *")

    def places(self, points: Sequence[Any]) -> Any:
        return self._ffi.new("secp256k1_pubkey *[]", points)

    def octets(self, content: bytes) -> tuple[Any, Any]:
        pointer = self._ffi.new(self._octets, content)
        return pointer, self._ffi.buffer(pointer, len(content))

    def size(self, value: int) -> Any:
        return self._ffi.new("size_t *", value)


class _CtypesMemory:
    def __init__(self) -> None:
        import ctypes  # only the library of the system needs it

        self._ctypes = ctypes

    def point(self) -> Any:
        return self._ctypes.create_string_buffer(_POINT_BYTES)

    def signature(self) -> Any:
        return self._ctypes.create_string_buffer(_SIGNATURE_BYTES)

    def places(self, points: Sequence[Any]) -> Any:
        return (self._ctypes.c_void_p * len(points))(*map(self._ctypes.addressof, points))

    def octets(self, content: bytes) -> tuple[Any, Any]:
        pointer = self._ctypes.create_string_buffer(content, len(content))
        return pointer, pointer

    def size(self, value: int) -> Any:
        return (self._ctypes.c_size_t * 1)(value)


def _of_btclib() -> tuple[Any, Memory]:
    import _btclib_libsecp256k1 as compiled

    if not hasattr(compiled, "lib"):
        # The wheels for any Python load the library beside them. Their package does it, and takes
        # twenty milliseconds to import, which the compiled module alone does not.
        import btclib_libsecp256k1 as compiled
    return compiled.lib, _CffiMemory(compiled.ffi)


def _of_coincurve() -> tuple[Any, Memory]:
    from coincurve import _libsecp256k1 as compiled

    return compiled.lib, _CffiMemory(compiled.ffi)


def _of_system() -> tuple[Any, Memory]:
    import ctypes

    kinds = {"p": ctypes.c_void_p, "s": ctypes.c_size_t, "i": ctypes.c_int}
    lib = _load_system()
    for name, arguments in FUNCTIONS.items():
        getattr(lib, name).argtypes = [kinds[kind] for kind in arguments]
    lib.secp256k1_context_create.restype = ctypes.c_void_p
    return lib, _CtypesMemory()


def _load_system() -> Any:
    from ctypes import CDLL, util

    if os.name != "posix":
        raise ImportError("this system has no place for libraries that all programs share")
    names = [f"libsecp256k1.so.{version}" for version in _VERSIONS]
    if not sys.platform.startswith("linux"):
        names = [found] if (found := util.find_library("secp256k1")) else []
    for name in names:
        try:
            return CDLL(name)
        except OSError:
            continue
    raise ImportError(ABSENT)


ABSENT: Final = "not installed"
SOURCES: Final[dict[str, Callable[[], tuple[Any, Memory]]]] = {
    "btclib_libsecp256k1": _of_btclib,
    "coincurve": _of_coincurve,
    "system": _of_system,
}


def load(source: str) -> Library:
    """Return the library of a source, or raise ``ImportError`` saying why it cannot be used."""
    try:
        lib, memory = SOURCES[source]()
        if missing := [name for name in FUNCTIONS if not hasattr(lib, name)]:
            fault = f"it lacks {', '.join(missing)}"
        else:
            library = Library(source, lib, memory, _new_context(lib))
            if _point_of_one(library) == _GENERATOR:
                return library
            fault = "it gives wrong answers"
    except ModuleNotFoundError:
        fault = ABSENT
    except Exception as error:  # noqa: BLE001 (a package may fail in any way; another may work)
        fault = str(error) or type(error).__name__
    raise ImportError(fault)


def _new_context(lib: Any) -> Any:
    context = lib.secp256k1_context_create(_ANY_USE)
    # This blinds what is done with secrets, against those who measure time or power.
    if not lib.secp256k1_context_randomize(context, os.urandom(32)):
        raise ImportError("its context cannot be randomised")
    return context


_GENERATOR: Final = bytes([2 + G[1] % 2]) + G[0].to_bytes(32, "big")


def _point_of_one(library: Library) -> bytes:
    lib, memory = library.lib, library.memory
    point, (output, view), size = memory.point(), memory.octets(bytes(33)), memory.size(33)
    lib.secp256k1_ec_pubkey_create(library.context, point, (1).to_bytes(32, "big"))
    lib.secp256k1_ec_pubkey_serialize(library.context, output, size, point, COMPRESSED)
    return bytes(view[:])


def _usable() -> Iterator[Library]:
    for source in SOURCES:
        try:
            yield load(source)
        except ImportError as error:
            if str(error) != ABSENT:
                UNUSABLE[source] = str(error)


UNUSABLE: Final[dict[str, str]] = {}
"""The sources that are installed and cannot be used, and why."""
LIBRARY: Final = next(_usable(), None)
"""The library that this process uses, or None where there is none."""
