"""What all fuzz targets share: choices made from bytes, seeds, known crashers, and the start."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import atheris

T = TypeVar("T")

_HERE = Path(__file__).parent
_VECTORS = _HERE.parent / "vectors"


class Choices:
    """The fuzzer's bytes, read as decisions; when they run out, every decision is the first one."""

    def __init__(self, data: bytes) -> None:
        self._provider = atheris.FuzzedDataProvider(data)

    def number(self, low: int, high: int) -> int:
        return int(self._provider.ConsumeIntInRange(low, high))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def bytes(self, most: int) -> bytes:
        return bytes(self._provider.ConsumeBytes(self.number(0, most)))

    def text(self, most: int) -> str:
        """Return any code points, lone surrogates among them."""
        return str(self._provider.ConsumeUnicode(self.number(0, most)))


def vector_texts() -> Iterator[str]:
    """Yield every string in the test vectors, if there are any."""
    for path in sorted(_VECTORS.glob("*.json")):
        yield from _strings(json.loads(path.read_text("utf-8")))


def noise(count: int, size: int = 200) -> Iterator[bytes]:
    """Yield reproducible random bytes: enough decisions to begin with."""
    for index in range(count):
        blocks = (sha256(b"%d %d" % (index, at)).digest() for at in range(size // 32 + 1))
        yield b"".join(blocks)[:size]


def start(
    target: str, check: Callable[[bytes], None], seeds: Iterable[bytes], fresh: bytes = b""
) -> None:
    """Replay the known crashers, then fuzz. Flags and files on the command line are libFuzzer's.

    ``fresh`` lists first bytes that make the rest decisions: most inputs then are such a byte and
    wholly new decisions, because changing a decision shifts the meaning of all that follow it.
    """
    corpus, crashers = _HERE / "corpus" / target, _HERE / "crashers" / target
    for folder in (corpus, crashers):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (corpus / sha256(seed).hexdigest()[:40]).write_bytes(seed)
    for crasher in sorted(crashers.iterdir()):
        try:
            check(crasher.read_bytes())
        except BaseException as error:
            error.add_note(f"while replaying {crasher.name}")
            raise
    arguments = sys.argv[1:]
    if all(argument.startswith("-") for argument in arguments):
        arguments = [*arguments, str(corpus)]
    # Short inputs would leave no decisions to make, so libFuzzer must not prefer them.
    defaults = [
        "-len_control=0",
        "-reduce_inputs=0",
        "-timeout=30",
        f"-artifact_prefix={crashers}/",
    ]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        if not fresh or seed % 4 == 0:
            return bytes(atheris.Mutate(data, max_size))
        random = Random(seed)  # noqa: S311 (libFuzzer's seed, so that runs can be repeated)
        size = random.choice((30, 60, 120, 300))
        return (bytes([random.choice(fresh)]) + random.randbytes(size))[:max_size]

    atheris.Setup([sys.argv[0], *defaults, *arguments], check, custom_mutator=mutate)
    atheris.Fuzz()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.items()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
