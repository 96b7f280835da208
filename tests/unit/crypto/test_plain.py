"""Where nothing is compiled: Lace is imported, reads and validates; it warns once, and never signs."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forge import KEY

from lace.crypto import plain
from lace.crypto.provider import PlainPythonWarning
from lace.record import build_plex, seal
from lace.recordstore import SqliteStore

LIBRARIES = ("_btclib_libsecp256k1", "btclib_libsecp256k1", "coincurve")
# A finder that knows no compiled packages, and a system without the library.
WITHOUT = """
import ctypes, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def load(name, *_, **__):
    raise OSError(name)

sys.meta_path.insert(0, Missing())
ctypes.CDLL = load
"""
VALIDATE = """
import sys, warnings, lace
from lace.record import validate_record
from lace.record.validate import validate_records

raws = [bytes.fromhex(line) for line in sys.stdin]
print([validate_record(raw).status.value for raw in raws])
print([outcome.status.value for outcome in validate_records(raws)])
for attempt in (lace.SigningKey.generate, lambda: lace.SigningKey(bytes(32))):
    try:
        attempt()
    except lace.UsageError as error:
        print(error.code, error.hint)
"""


def run(program: str, *words: str, missing: tuple[str, ...], given: str = "") -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing) + program, *words],
        input=given, capture_output=True, text=True, check=True, env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    return done.stdout, done.stderr


@pytest.fixture
def raws() -> list[bytes]:
    plex = build_plex(group="g", app="a", name="n", tai="0000000001:000000000", data=b"x")
    sound = seal(plex, KEY).raw
    return [sound, plex.raw, sound[:-1] + b"y"]


@pytest.mark.req("009-SIG-06")
@pytest.mark.parametrize("missing", [LIBRARIES, (*LIBRARIES, "blake3")], ids=["curve", "all"])
def test_records_are_validated_and_nothing_is_signed(
    raws: list[bytes], missing: tuple[str, ...]
) -> None:
    given = "".join(f"{raw.hex()}\n" for raw in raws)
    said, told = run(VALIDATE, missing=missing, given=given)
    verdicts = "['accepted', 'accepted', 'rejected']\n"
    refused = "key.library Run: pip install btclib_libsecp256k1"
    assert said.startswith(verdicts * 2 + refused)
    assert said.count(refused) == 2
    assert told.count("PlainPythonWarning") == 1
    assert "no key can be used" in told
    wanted = " ".join(["btclib_libsecp256k1", *missing[3:]])
    assert f"Run: pip install {wanted}, or install libsecp256k1 of your system\n" in told


def test_without_blake3_alone_keys_work(raws: list[bytes]) -> None:
    given = "".join(f"{raw.hex()}\n" for raw in raws)
    program = VALIDATE + "key = lace.SigningKey(bytes(32))\nprint(key, len(key.sign(bytes(32))))"
    said, told = run(program, missing=("blake3",), given=given)
    assert said.startswith("['accepted', 'accepted', 'rejected']\n" * 2)
    assert said.endswith(" 64\n")
    assert told.count("PlainPythonWarning") == 1
    assert "Run: pip install blake3\n" in told
    assert "no key" not in told


def test_importing_lace_says_nothing() -> None:
    said, told = run("import lace; print(lace.__version__)", missing=(*LIBRARIES, "blake3"))
    assert said
    assert told == ""


def test_commands_show_a_note(tmp_path: Path) -> None:
    folder = str(tmp_path / "notes")
    command = "from lace.cli import main; main()"
    missing = (*LIBRARIES, "blake3")
    run(command, "init", folder, "--select", "//g//a//", missing=())
    with SqliteStore(f"{folder}/records.lace") as store:
        store.save(
            [seal(build_plex(group="g", app="a", name="n", tai="0000000001:000000000"), KEY)]
        )
    said, told = run(command, "list", "--lace", folder, missing=missing)
    assert json.loads(said)["place"] == "//g//a//n"
    assert told.startswith("note: compiled cryptography is missing: ")
    assert told.count("compiled") == 1
    assert "Warning" not in told
    said, told = run(command, "store", "check", "--lace", folder, missing=missing)
    assert json.loads(said)["problems"] == 0


def test_the_warning_names_what_is_there_and_cannot_be_used() -> None:
    with pytest.warns(PlainPythonWarning, match=r"coincurve cannot be used: it lacks x\)$"):
        plain.warn(library=False, hashes=True, reasons={"coincurve": "it lacks x"})


def test_a_process_that_helps_another_one_does_not_warn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    plain.warn(library=False, hashes=False, reasons={})  # a warning would be an error here


@pytest.mark.parametrize(
    "content",
    [
        "def (",
        "raise OSError('a library is missing')",
        "class blake3:\n    def __init__(self, data=b''): pass",
        "from lace.crypto.reference import Hasher\n"
        "class blake3(Hasher):\n    def digest(self, length=32): return bytes(length)",
    ],
    ids=["syntax", "library", "old", "wrong"],
)
def test_a_package_for_hashes_that_does_not_work_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "blake3.py").write_text(content)
    done = subprocess.run(
        [sys.executable, "-c", "from lace.crypto.hashing import digest; print(digest(b'').hex())"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout[:16]) == (0, "af1349b9f5f9a1a6"), done.stderr
    assert "PlainPythonWarning" in done.stderr
