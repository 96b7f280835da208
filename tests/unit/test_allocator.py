"""What large buffers took goes back to the system, also from the memory of threads."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys

import pytest

from lace.allocator import give_back_large

GLIBC = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")
#: Buffers of 3 MiB come and go in threads, with small values between them that stay.
PROGRAM = """
import json, sys, threading
from lace.allocator import give_back_large

def held():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("Anonymous"))

done = give_back_large() if sys.argv[1] == "yes" else False
before, kept = held(), []

def work():
    for _ in range(3):
        buffers = []
        for _ in range(20):
            buffers.append(bytearray(3 << 20))
            kept.append(bytes(5000))
        buffers.clear()

for _ in range(2):
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(json.dumps([done, held() - before]))
"""


def grown(first: str) -> tuple[bool, int]:
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, first], capture_output=True, check=True, env={}
    )
    done, mebibytes = json.loads(made.stdout)
    return done, mebibytes


@pytest.mark.skipif(not GLIBC, reason="only glibc keeps what large buffers took")
def test_what_large_buffers_took_goes_back() -> None:
    done, mebibytes = grown("yes")
    assert done
    assert mebibytes < 30
    assert grown("no")[1] > mebibytes + 30  # else there is nothing to do about it any more


@pytest.mark.parametrize("name", ["MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_the_environment_has_the_last_word(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert not give_back_large()


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lace.allocator.sys.platform", "darwin")
    assert not give_back_large()
    monkeypatch.undo()
    monkeypatch.setattr("ctypes.CDLL", lambda _name: object())
    assert not give_back_large()
