"""A whole file is written in one way: complete under its name, or not there at all."""

from __future__ import annotations

import ast
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lace.drafts import DraftFile, write_file

SOURCE = Path(__file__).parents[2] / "src" / "lace"
POSIX = pytest.mark.skipif(os.name != "posix", reason="links, modes and locks are those of POSIX")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_its_name_once_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"before")
    with DraftFile(target, overwrite=True) as draft:
        draft.file.write(b"half ")
        draft.file.flush()
        assert target.read_bytes() == b"before"
        draft.file.write(b"and half")
    assert target.read_bytes() == b"half and half"
    assert names(tmp_path) == ["a"]


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"before")

    def fail() -> None:
        with DraftFile(target, overwrite=True) as draft:
            draft.file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert target.read_bytes() == b"before"
    assert names(tmp_path) == ["a"]


def test_nothing_is_replaced_that_came_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "a"

    def write() -> None:
        with DraftFile(target, overwrite=False) as draft:
            draft.file.write(b"mine")
            target.write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        write()
    assert target.read_bytes() == b"theirs"
    with pytest.raises(FileExistsError):
        write_file(target, b"mine", overwrite=False)
    assert names(tmp_path) == ["a"]


def test_a_name_that_is_taken_can_be_exchanged_for_another(tmp_path: Path) -> None:
    draft = DraftFile(tmp_path / "a", overwrite=False)
    draft.file.write(b"mine")
    (tmp_path / "a").write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        draft.commit()
    draft.commit(tmp_path / "b")
    draft.discard()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a": b"theirs",
        "b": b"mine",
    }


@pytest.mark.parametrize("error", [OSError, NotImplementedError])
def test_a_disk_without_second_names_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def link(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(os, "link", link)
    write_file(tmp_path / "a", "text", overwrite=False)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "a", "other", overwrite=False)
    assert (tmp_path / "a").read_bytes() == b"text"
    assert names(tmp_path) == ["a"]


@POSIX
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_replaced_and_not_followed(tmp_path: Path, dangling: bool) -> None:
    behind, target = tmp_path / "behind", tmp_path / "a"
    if not dangling:
        behind.write_bytes(b"of somebody else")
    target.symlink_to(behind)
    with pytest.raises(FileExistsError):
        write_file(target, b"mine", overwrite=False)
    write_file(target, b"mine", overwrite=True)
    assert not target.is_symlink()
    assert target.read_bytes() == b"mine"
    assert behind.exists() is not dangling
    if not dangling:
        assert behind.read_bytes() == b"of somebody else"


@POSIX
def test_a_link_in_the_place_of_a_draft_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lace.drafts.secrets.token_hex", lambda _size: "0" * 16)
    behind = tmp_path / "behind"
    behind.write_bytes(b"of somebody else")
    (tmp_path / f".a.{'0' * 16}.part").symlink_to(behind)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "a", b"mine", overwrite=True)
    assert behind.read_bytes() == b"of somebody else"


@POSIX
def test_only_what_was_written_gets_the_name(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"before")
    draft = DraftFile(target, overwrite=True)
    draft.file.write(b"mine")
    assert draft.path is not None
    draft.path.unlink()
    draft.path.write_bytes(b"theirs")
    with pytest.raises(FileNotFoundError, match="another program"):
        draft.commit()
    draft.discard()
    assert target.read_bytes() == b"before"


@POSIX
def test_a_file_has_the_mode_that_is_asked_for_or_that_it_had(tmp_path: Path) -> None:
    target = tmp_path / "a"
    before = os.umask(0o022)
    try:
        write_file(target, b"", overwrite=True)
        assert stat.S_IMODE(target.stat().st_mode) == 0o644
        target.chmod(0o640)
        write_file(target, b"", overwrite=True)
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        write_file(target, b"", overwrite=True, mode=0o600)
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    finally:
        os.umask(before)


@POSIX
def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    with DraftFile(tmp_path / "a", overwrite=True, mode=0o600) as draft:
        assert draft.path is not None
        assert stat.S_IMODE(draft.path.stat().st_mode) == 0o600


@POSIX
def test_a_file_that_only_its_owner_reads_has_no_draft_that_others_can_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, modes = tmp_path / "a", []
    target.touch(0o600)
    opens = os.open

    def note(path: Path, flags: int, mode: int = 0o777) -> int:
        descriptor = opens(path, flags, mode)
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr("lace.drafts.os.open", note)
    draft = DraftFile(target, overwrite=True)
    draft.discard()
    assert modes == [0o600]


@POSIX
@pytest.mark.parametrize(("before", "after"), [(0o664, 0o644), (0o660, 0o600), (0o604, 0o604)])
def test_a_group_that_is_not_the_one_of_before_may_do_what_everybody_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    target = tmp_path / "a"
    target.touch()
    target.chmod(before)
    found = list(target.stat())
    found[stat.ST_GID] += 1

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("lace.drafts._stat", lambda _path: os.stat_result(found))
    monkeypatch.setattr("lace.drafts.os.fchown", refuse)
    write_file(target, b"", overwrite=True)
    assert stat.S_IMODE(target.stat().st_mode) == after


@POSIX
def test_a_draft_that_another_process_locks_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    held: list[int] = []

    def lock(descriptor: int, how: int) -> None:
        if not held:
            (draft,) = tmp_path.iterdir()
            held.append(os.open(draft, os.O_RDONLY))
            fcntl.flock(held[0], fcntl.LOCK_SH)
        assert how & fcntl.LOCK_NB  # otherwise the other process decides when this one goes on
        fcntl.flock(descriptor, how)

    monkeypatch.setattr("lace.drafts._lock", lock)
    write_file(tmp_path / "a", b"mine", overwrite=True)
    os.close(held[0])
    assert names(tmp_path) == ["a"]


@POSIX
def test_a_pipe_that_becomes_a_link_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, behind = tmp_path / "pipe", tmp_path / "behind"
    os.mkfifo(pipe)
    behind.write_bytes(b"of somebody else")
    found = pipe.stat()
    pipe.unlink()
    pipe.symlink_to(behind)
    monkeypatch.setattr("lace.drafts._stat", lambda _path: found)
    with pytest.raises(FileNotFoundError, match="another program"):
        write_file(pipe, b"mine", overwrite=True)
    assert behind.read_bytes() == b"of somebody else"


@POSIX
def test_a_pipe_that_comes_before_a_new_file_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, readers = tmp_path / "a", list[int]()

    def is_there(_path: object) -> bool:
        os.mkfifo(target)  # right after
        readers.append(os.open(target, os.O_RDONLY | os.O_NONBLOCK))
        return False

    monkeypatch.setattr("lace.drafts.os.path.lexists", is_there)
    with pytest.raises(FileExistsError):
        write_file(target, b"mine", overwrite=False)
    os.close(*readers)
    assert names(tmp_path) == ["a"]


TO_OUTPUT = """
import sys
from pathlib import Path
from lace.drafts import write_file
write_file(Path(sys.argv[1]), b"through", overwrite=True)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="has no names of descriptors")
def test_a_link_to_the_output_is_the_output(tmp_path: Path) -> None:
    link, output = tmp_path / "stdout", tmp_path / "output"
    link.symlink_to("/proc/self/fd/1")
    with output.open("wb") as file:
        subprocess.run([sys.executable, "-c", TO_OUTPUT, str(link)], stdout=file, check=True)
    assert link.is_symlink()
    assert output.read_bytes() == b"through"
    assert names(tmp_path) == ["output", "stdout"]


@POSIX
def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reading.start()
    write_file(pipe, b"through", overwrite=True)
    reading.join(10)
    assert got == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path, b"", overwrite=True)
    assert names(tmp_path) == ["pipe"]


HELD = """
import sys
from pathlib import Path
from lace.drafts import DraftFile
draft = DraftFile(Path(sys.argv[1]), overwrite=True)
draft.file.write(b"half")
draft.file.flush()
print("ready", flush=True)
sys.stdin.read()
draft.file.write(b" and half")
draft.commit()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Return another process that is writing the file a."""
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, str(tmp_path / "a")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


@POSIX
def test_what_a_killed_process_left_is_removed_by_the_next(
    tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait(10)
    kept = [".a.new.part", ".b.0123456789abcdef.part", "a.0123456789abcdef.part"]
    for name in kept:
        (tmp_path / name).write_bytes(b"no draft of a")
    assert len(names(tmp_path)) == len(kept) + 1
    write_file(tmp_path / "a", b"mine", overwrite=True)
    assert names(tmp_path) == sorted([*kept, "a"])


@POSIX
def test_what_another_process_is_writing_stays_and_may_succeed_too(
    tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    write_file(tmp_path / "a", b"mine", overwrite=True)
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert len(names(tmp_path)) == 2
    other.communicate(b"", timeout=10)
    assert other.returncode == 0
    assert (tmp_path / "a").read_bytes() == b"half and half"
    assert names(tmp_path) == ["a"]


@POSIX
def test_many_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "a"
    contents = {bytes([number]) * 5000 for number in range(8)}

    def write(content: bytes) -> None:
        for _ in range(20):
            write_file(target, content, overwrite=True)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert names(tmp_path) == ["a"]


@POSIX
def test_a_name_may_be_as_long_as_the_disk_allows(tmp_path: Path) -> None:
    name = "ä" * 127 + "a"
    write_file(tmp_path / name, b"mine", overwrite=False)
    write_file(tmp_path / name, b"again", overwrite=True)
    assert names(tmp_path) == [name]


# --- the only way ---

#: Modules that write files otherwise, and why that is right.
OTHERWISE = {
    "drafts.py": "the one place",
    "cli/__init__.py": "standard streams that are missing",
    "driving/journal.py": "grows step by step, and what a killed process wrote is to be read",
    "recordstore/sqlite_file.py": "the store, which SQLite writes; a copy in a temporary folder",
    "recordstore/sqlite_reserve.py": "holds room, and no content",
    "keyring.py": "the file of a lock",
    "lake/bundle.py": "in a temporary folder",
    "lake/doctor.py": "in a temporary folder",
    "lake/jobs.py": "a temporary file",
    "lake/quarantine.py": "in a temporary folder",
    "lake/reading.py": "in a temporary folder",
    "lake/reconcile.py": "in a temporary folder",
    "lake/session.py": "the log of Java, which grows",
    "cli/lake_demo.py": "in a temporary folder",
    "transport/stdio.py": "standard streams",
}
OF_MODULES = {
    "os": frozenset(("open", "fdopen", "replace", "rename", "link", "mkfifo")),
    "shutil": frozenset(("copyfile", "copy", "copy2", "copytree", "move")),
    "tempfile": frozenset(("mkstemp", "NamedTemporaryFile", "TemporaryFile")),
}


def writes(call: ast.Call) -> bool:
    """Whether a call writes a whole file, or gives one a name."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        module = OF_MODULES.get(function.value.id)
        if module is not None:
            return function.attr in module
    if isinstance(function, ast.Attribute) and function.attr in {"write_text", "write_bytes"}:
        return True
    is_open = isinstance(function, ast.Name) and function.id == "open"
    if is_open or (isinstance(function, ast.Attribute) and function.attr == "open"):
        texts = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
        modes = [
            one.value
            for text in texts
            for one in ast.walk(text)
            if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]
        return any(set(mode) <= set("rwxabt+") and set(mode) & set("wxa+") for mode in modes)
    return False


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("path.write_text('a')", True),
        ("(folder / 'a').write_bytes(b'a')", True),
        ("path.open('w')", True),
        ("Path(a).open('xb' if b else 'wb')", True),
        ("open(name, mode='a')", True),
        ("os.open(name, flags)", True),
        ("os.replace(a, b)", True),
        ("shutil.copytree(a, b)", True),
        ("path.open('rb')", False),
        ("path.open()", False),
        ("blocking.open(path)", False),
        ("text.replace('a', 'b')", False),
        ("write_text('a')", False),
    ],
)
def test_it_is_seen_what_writes_a_file(text: str, found: bool) -> None:
    (statement,) = ast.parse(text).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert writes(statement.value) is found


def test_whole_files_are_written_in_one_place() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and writes(node)
    }
    assert sorted(found) == sorted(OTHERWISE)
