"""The plumbing contract: exact output, exact exit codes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import forge
import pytest
from command import lace

SECRET = forge.KEY.reveal()
PLEX = {
    "type": "plex",
    "group": "u",
    "app": "ding",
    "name": "links/1",
    "tai": "1640995200:000000000",
    "extras": [],
    "data_b64": base64.b64encode(b"hello").decode(),
}


def objects(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.req("006-B64-01", "006-B64-02")
def test_b64a() -> None:
    done = lace("plumb", "b64a", "encode", stdin="000102\n\nFF00\nxyz\n0\n0 0\nff")
    assert done.stdout == b"0042\n\n~l0\n!hex.malformed\n!hex.malformed\n!hex.malformed\n~l\n"
    assert (done.returncode, done.stderr) == (1, b"")
    done = lace("plumb", "b64a", "decode", stdin=b"0042\n\n~l0\n01\n\xff\n")
    assert done.stdout == b"000102\n\nff00\n!b64a.spare-bits\n!b64a.alphabet\n"
    assert done.returncode == 1
    assert lace("plumb", "b64a", "decode", stdin="0042\n").returncode == 0


@pytest.mark.req("009-SIG-01", "009-SIG-04", "009-SIG-07")
def test_key() -> None:
    made = objects(lace("plumb", "key", "new").stdout)[0]
    assert sorted(made) == ["secret", "verifier"]
    done = lace("plumb", "key", "derive", stdin=f"{made['secret']}\n{SECRET}\n")
    assert done.stdout == (
        f'{{"verifier":"{made["verifier"]}"}}\n{{"verifier":"{forge.KEY.verifier}"}}\n'.encode()
    )
    bad = lace("plumb", "key", "derive", stdin=f"x{SECRET}\n{SECRET}")
    assert bad.returncode == 1
    assert objects(bad.stdout)[0] == {
        "code": "key.secret-malformed",
        "detail": "not a signing secret",
        "ok": False,
    }
    assert SECRET.encode() not in bad.stdout + bad.stderr


@pytest.mark.req("010-REC-03", "010-REC-05", "010-REC-09", "009-SIG-07")
def test_record_build() -> None:
    entries = [
        {"type": "blob", "data_b64": "aGVsbG8="},
        PLEX,
        PLEX | {"type": "seal", "secret": SECRET, "aux_hex": "01" * 32},
        PLEX | {"extras": [["B", "2"], ["A", "1"]]},
    ]
    done = lace("plumb", "record", "build", stdin="\n".join(map(json.dumps, entries)))
    assert done.returncode == 0
    results = objects(done.stdout)
    assert [r["hash"] for r in results[:3]] == [
        "B.kQIYZC1_~Q_ji4~Twe2_7m9Zn2scg_Cu9zNTkbk9zq8.H3",
        "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3",
        "S.fGrYXb9MJ8qV1QGPHOE0RWiPJJdl3EAtodLNz8Pst_t.H3",
    ]
    assert base64.b64decode(results[2]["record_b64"]) == forge.seal()
    assert base64.b64decode(results[3]["record_b64"]) == forge.plex_with(b"A: 1", b"B: 2")
    assert SECRET.encode() not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", "input.json"),
        ("[]", "input.json"),
        ("{", "input.json"),
        ("[" * 100_000, "input.json"),
        ("{}", "input.key"),
        ('{"type":"file"}', "input.key"),
        ('{"type":["blob"]}', "input.key"),
        (json.dumps({"type": "blob", "data_b64": "aGVsbG8"}), "input.base64"),
        (json.dumps({"type": "blob", "data_b64": "aGVsb G8="}), "input.base64"),
        (json.dumps({"type": "blob", "data_b64": 5}), "input.key"),
        (json.dumps({"type": "blob", "secret": SECRET}), "input.key"),
        (json.dumps({k: v for k, v in PLEX.items() if k != "tai"}), "input.key"),
        (json.dumps(PLEX | {"extras": [["A"]]}), "input.key"),
        (json.dumps(PLEX | {"extras": [["A", 1]]}), "input.key"),
        (json.dumps(PLEX | {"extras": [["Type", "x"]]}), "record.header-reserved"),
        (json.dumps(PLEX | {"group": "a\nb"}), "text.control"),
        (json.dumps(PLEX | {"type": "seal"}), "input.key"),
        (json.dumps(PLEX | {"type": "seal", "secret": "no"}), "key.secret-malformed"),
        (json.dumps(PLEX | {"type": "seal", "secret": SECRET, "aux_hex": "00" * 32}), "key.aux"),
        (json.dumps(PLEX | {"type": "seal", "secret": SECRET, "aux_hex": "zz"}), "hex.malformed"),
    ],
)
def test_record_build_refuses_a_line_and_goes_on(line: str, code: str) -> None:
    done = lace("plumb", "record", "build", stdin=f'{line}\n{{"type":"blob"}}\n')
    refused, built = objects(done.stdout)
    assert (refused["code"], refused["ok"]) == (code, False)
    assert refused["detail"]
    assert built["hash"].startswith("B.")
    assert done.returncode == 1
    assert SECRET.encode() not in done.stdout + done.stderr


@pytest.mark.req("010-REC-02", "010-REC-09")
def test_record_check_goes_on_after_a_wrong_digest_or_signature(tmp_path: Path) -> None:
    bad_digest = forge.seal()[:-1] + b"X"
    bad_signature = forge.seal(signature=b"0" * 86)
    parts = [forge.blob(), bad_digest, bad_signature, forge.seal()]
    (tmp_path / "a").write_bytes(b"".join(parts))
    (tmp_path / "b").write_bytes(forge.plex())
    done = lace("plumb", "record", "check", "a", "b", cwd=tmp_path)
    lines = objects(done.stdout)
    assert [(r["file"], r["ok"], r.get("code"), r.get("type")) for r in lines] == [
        ("a", True, None, "B"),
        ("a", False, "record.hash-mismatch", None),
        ("a", False, "record.signature", None),
        ("a", True, None, "S"),
        ("b", True, None, "P"),
    ]
    assert [r["offset"] for r in lines] == [0, *_offsets(parts), 0]
    assert sorted(lines[0]) == ["file", "hash", "offset", "ok", "type"]
    assert sorted(lines[1]) == ["code", "detail", "file", "offset", "ok"]
    assert done.returncode == 3


def _offsets(parts: list[bytes]) -> list[int]:
    return [sum(map(len, parts[:index])) for index in range(1, len(parts))]


@pytest.mark.parametrize(
    "bad",
    [forge.plex_with(b"B: 1", b"A: 1"), forge.blob(b"a", b"Data-Length: 01"), b"garbage\n"],
    ids=["unsorted", "length", "garbage"],
)
def test_record_check_ends_a_file_at_a_fault_in_the_headers(tmp_path: Path, bad: bytes) -> None:
    (tmp_path / "a").write_bytes(forge.blob() + bad + forge.blob())
    (tmp_path / "b").write_bytes(forge.blob())
    done = lace("plumb", "record", "check", "a", "b", cwd=tmp_path)
    assert [(r["file"], r["ok"]) for r in objects(done.stdout)] == [
        ("a", True),
        ("a", False),
        ("b", True),
    ]
    assert done.returncode == 3


def test_record_check_reads_standard_input() -> None:
    done = lace("plumb", "record", "check", "-", stdin=forge.blob())
    assert objects(done.stdout)[0]["file"] == "-"
    assert done.returncode == 0
    assert lace("plumb", "record", "check", "-").stdout == b""


@pytest.mark.req("020-FAC-01", "020-FAC-02")
def test_record_facts(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(forge.plex() + forge.blob() + forge.seal()[:-1] + b"X")
    (tmp_path / "b").write_bytes(forge.blob() + forge.plex_with(b"Q: it's"))
    done = lace("plumb", "record", "facts", "a", "b", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines == sorted(set(lines))
    assert sum(line.startswith(b"Have(") for line in lines) == 3
    assert b"record.hash-mismatch" in done.stderr
    assert any(line.endswith(rb"'Q','0','it\'s')") for line in lines)
    assert done.returncode == 3


@pytest.mark.req("110-URC-01", "110-EVT-07")
def test_urc_parse() -> None:
    lines = "//u//docs//x\n//u//d//l/\n//g//a//k/|/plex\n////B.a.H9\n//u\n"
    done = lace("plumb", "urc", "parse", stdin=lines.encode() + b"\xff\n")
    assert done.stdout.splitlines()[:4] == [
        b'{"app":"docs","group":"u","kind":"coordinate","name":"x","selector":null}',
        b'{"app":"d","group":"u","kind":"prefix","name":"l/","selector":null}',
        (
            b'{"app":"a","group":"g","kind":"coordinate","name":"k",'
            b'"selector":{"hash":null,"tai":null,"type":"plex","verifier":null}}'
        ),
        b'{"hash":"B.a.H9","kind":"hash"}',
    ]
    refused = objects(done.stdout)[4:]
    assert [r["code"] for r in refused] == ["urc.field", "text.utf8"]
    assert sorted(refused[0]) == ["code", "detail"]
    assert done.returncode == 1


def test_output_is_utf8_unescaped() -> None:
    done = lace("plumb", "urc", "parse", stdin="//ü//a//世界\n")
    assert "世界".encode() in done.stdout


@pytest.mark.parametrize("arguments", [("nonsense",), ("record", "check"), ("b64a", "encode", "x")])
def test_usage(arguments: tuple[str, ...]) -> None:
    done = lace("plumb", *arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = lace("plumb", "record", "check", tmp_path / "nothing")
    assert done.returncode == 2
    assert b"nothing" in done.stderr
    assert b"input.file" in done.stderr
