"""The set-up says what it does, goes on after a failure, and explains what is in its way.

pip is real here. It takes its wheels from a folder, so no network is needed; where a test needs an index,
it is one on this machine.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import set_up

WHEELS = Path(sys.prefix) / "wheels"
TOOL = Path(set_up.__file__)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip see nothing but the wheels that the set-up of the tests left."""
    assert WHEELS.is_dir(), f"{WHEELS} is not there: run the tests with make test, which makes it"
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", WHEELS.as_uri())  # pip splits paths at spaces
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


def run(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, TOOL, "--into", folder, *targets]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_set_up_is_whole_and_a_second_one_has_nothing_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "an environment with spaces and ö"
    first = run(folder, "base")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("done in") == 2
    for step in ("environment", "base"):
        assert f"{set_up.STEPS[step].title}, {set_up.STEPS[step].download} MB" in first.stdout
    version = subprocess.run(
        [folder / "bin" / "lace", "--version"], capture_output=True, check=True
    )
    assert version.stdout.startswith(b"lace")
    again = run(folder, "base")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.mark.long
def test_what_was_killed_is_done_again(tmp_path: Path) -> None:
    """Killed while pip writes: the next run ends with an environment that works."""
    command: list[str | Path] = [sys.executable, TOOL, "--into", tmp_path, "base"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while not list(tmp_path.glob("lib/python*/site-packages/rich")):
            assert process.poll() is None
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    assert not list(tmp_path.glob("lib/python*/site-packages/lace_engine*"))
    again = run(tmp_path, "base")
    assert again.returncode == 0, again.stderr
    assert set_up.STEPS["environment"].title not in again.stdout  # that much was done
    check: list[str | Path] = [
        tmp_path / "bin" / "python",
        "-c",
        "import lace.cli, rich.console, websockets, blake3",
    ]
    subprocess.run(check, check=True)


def test_a_package_whose_installation_was_cut_off_is_not_believed(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("whole", "half"):
        (site / f"{name}-1.0.dist-info").mkdir(parents=True)
        (site / f"{name}-1.0.dist-info" / "METADATA").touch()
    (site / "whole-1.0.dist-info" / "INSTALLER").touch()
    set_up.forget_half_installed(tmp_path)
    assert [path.name for path in site.iterdir()] == ["whole-1.0.dist-info"]


def test_another_python_or_another_pin_is_another_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = set_up.Environment(tmp_path)
    before = {name: environment._marks(name) for name in set_up.STEPS}
    pins = tmp_path / "constraints.txt"
    pins.write_text("click==1.0\n")
    monkeypatch.setattr(set_up, "CONSTRAINTS", pins)
    changed = {name for name in set_up.STEPS if environment._marks(name) != before[name]}
    assert changed == set(set_up.STEPS) - {"environment"}
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert environment._marks("environment") != before["environment"]


def test_every_target_names_steps_that_exist() -> None:
    for target, steps in set_up.TARGETS.items():
        assert set(steps) <= set(set_up.STEPS), target
    makefile = (set_up.ROOT / "Makefile").read_text(encoding="utf-8")
    for line in makefile.splitlines():
        if line.startswith("\t$(call set-up,"):
            assert set(line[len("\t$(call set-up,") : -1].split()) <= set(set_up.TARGETS), line


def test_an_extra_that_this_python_cannot_have_is_left_out_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "It needs a wheel; Python 3.11 can have it."
    monkeypatch.setattr(set_up, "left_out", lambda extra: why if extra == "lake" else None)
    out = io.StringIO()
    environment = set_up.Environment(tmp_path, out)
    done: list[str] = []
    monkeypatch.setattr(environment, "_make", lambda: None)
    monkeypatch.setattr(environment, "_run", lambda step, **_: done.append(step.title))
    monkeypatch.setattr(environment, "_keep", lambda _: None)
    environment.prepare(["lake", "site"])
    assert done == [set_up.STEPS[name].title for name in ("environment", "base", "site")]
    first, second = out.getvalue().splitlines()
    assert first.startswith("The lake is left out: It needs a wheel; Python 3.11 can have it (make")
    assert (
        f"about {sum(set_up.STEPS[name].download for name in ('environment', 'base', 'site'))} MB"
        in second
    )


@pytest.mark.parametrize(("why", "code"), [(None, 0), ("No wheel.", 1)])
def test_a_makefile_can_ask_whether_an_extra_is_supported(
    why: str | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(set_up, "left_out", lambda _: why)
    assert set_up.main(["--supports", "lake"]) == code
    assert capsys.readouterr().out.startswith("The lake is left out: No wheel (make") == (code == 1)


def test_a_target_that_is_missing_or_unknown_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["nonsense"]):
        with pytest.raises(SystemExit):
            set_up.main(arguments)
        assert "name some of these: base, lake" in capsys.readouterr().err


class _Index(BaseHTTPRequestHandler):
    """An index with one file that breaks off in the middle."""

    breaks = ""

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[-1]
        if name.endswith(".whl"):
            body = (WHEELS / name).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if name.startswith(self.breaks) else body)
            return
        found = [
            p.name
            for p in WHEELS.glob("*.whl")
            if p.name.lower().startswith(f"{name.replace('-', '_')}-")
        ]
        page = "".join(f'<a href="/{one}">{one}</a>' for one in found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def breaking_index(breaks: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(_Index, "breaks", breaks)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()
        thread.join()


@pytest.mark.long
@pytest.mark.parametrize("breaks", ["pip-", "websockets-"])  # the pip of Python, and the new one
def test_half_a_download_is_said_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaking_index: str
) -> None:
    with monkeypatch.context() as broken:
        broken.delenv("PIP_NO_INDEX")
        broken.delenv("PIP_FIND_LINKS")
        broken.setenv("PIP_INDEX_URL", breaking_index)
        broken.setenv("PIP_RETRIES", "1")
        broken.setenv("PIP_RESUME_RETRIES", "0")
        done = run(tmp_path, "base")
    assert done.returncode == 1
    assert "a download broke off. Run the same command again" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(done.stderr.splitlines()) == 2
    assert run(tmp_path, "base").returncode == 0


@pytest.mark.long
def test_no_network_is_said_in_plain_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("PIP_RETRIES", "1")
    done = run(tmp_path, "base")
    assert done.returncode == 1
    assert "the package index cannot be reached. Check the network." in done.stderr
    assert "goes on from here" in done.stderr
    assert "Connection refused" in (tmp_path / "set-up.log").read_text(encoding="utf-8")


@pytest.mark.long
def test_too_little_room_is_said_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = set_up.Step("something huge", 1, 10**12, ["install", "huge"])
    monkeypatch.setattr(set_up, "STEPS", {**set_up.STEPS, "base": huge})
    out = io.StringIO()
    with pytest.raises(set_up.SetUpError, match=r"something huge: 1000000000000 MB are needed"):
        set_up.Environment(tmp_path, out).prepare(["base"])
    assert "something huge, 1 MB" not in out.getvalue()


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full. Make room"),
        ("[Errno 30] Read-only file system: '/x/.venv'", "it cannot be written to. Work in a"),
        ("[Errno 13] Permission denied: '/x/.venv'", "it cannot be written to. Work in a"),
        ("SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]')", "Set PIP_CERT"),
        ("ERROR: No matching distribution found for x==1", "for this Python and this machine"),
        ("something else", "pip failed. Read what it printed."),
    ],
)
def test_what_pip_says_becomes_a_sentence_and_a_way_on(printed: str, words: str) -> None:
    assert words in set_up.explain(printed)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path / "file" / "environment", "base")
    assert done.returncode == 1
    assert done.stderr.startswith("set-up: ")
    assert "Traceback" not in done.stderr


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


PIP = [
    "Collecting pyspark", "Downloading pyspark-4.3.0.tar.gz (4.0 MB)", "Progress 0 of 4000000",
    "Progress 2000000 of 4000000", "Progress 4000000 of 4000000",
    "Downloading py4j-0.10.9.9-py2.py3-none-any.whl (203 kB)", "Building wheels for collected",
    "Installing collected packages: py4j, pyspark", "WARNING: Retrying (Retry(total=4))",
]  # fmt: skip


@pytest.mark.parametrize("out", [_Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_progress_counts_what_was_fetched(out: io.StringIO) -> None:
    progress = set_up.Progress(set_up.STEPS["spark"], out, every=0)
    for line in PIP:
        progress.hear(line)
    progress.done()
    said = out.getvalue()
    assert said.startswith("  Spark, 456 MB: ")
    assert said.index("2 MB fetched") < said.index("installing") < said.index("trying again")
    assert said.endswith("s, 4 MB fetched\n")
    assert progress.fetched == 4_203_000
    assert ("\r" in said) == out.isatty()
    assert said.count("\n") == 1


def refused(folder: Path) -> str:
    with pytest.raises(set_up.SetUpError) as caught:
        set_up.Environment(folder, io.StringIO()).prepare(["base"])
    return str(caught.value)


def test_a_folder_that_holds_something_else_is_never_emptied(tmp_path: Path) -> None:
    diary = tmp_path / "precious" / "diary.txt"
    diary.parent.mkdir()
    diary.write_text("Dear diary")
    assert "was not made by this set-up" in refused(diary.parent)
    (tmp_path / "link").symlink_to(diary.parent)
    assert "was not made by this set-up" in refused(tmp_path / "link")
    assert [path.name for path in diary.parent.iterdir()] == ["diary.txt"]
    assert diary.read_text() == "Dear diary"


@pytest.mark.parametrize("place", [set_up.ROOT, set_up.ROOT.parent, Path("/"), Path.home()])
def test_what_holds_the_clone_or_a_home_is_no_environment(place: Path) -> None:
    assert "holds more than an environment" in refused(place)


def test_the_sources_are_no_environment() -> None:
    assert "was not made by this set-up" in refused(set_up.ROOT / "src")


def test_files_and_links_to_nothing_and_odd_paths_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert "is no folder" in refused(tmp_path / "file")
    assert "is no folder" in refused(tmp_path / "dangling")
    assert "a colon or a line break" in refused(tmp_path / "a:b")


@pytest.mark.long
def test_a_link_to_an_empty_folder_is_filled_and_another_python_is_told(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    link = tmp_path / "{environment}{0}"
    link.symlink_to(tmp_path / "large disk")
    assert run(link, "base").returncode == 0
    note = tmp_path / "large disk" / "set-up.json"
    before = note.read_text(encoding="utf-8")
    note.write_text(before.replace(set_up._PYTHON, "3.99 of /elsewhere"), encoding="utf-8")
    assert "was made with Python 3.99 of /elsewhere" in refused(link)
    assert (tmp_path / "large disk" / "bin" / "lace").exists()
    (tmp_path / "large disk" / "bin" / "python").unlink()  # its Python was removed
    again = run(link, "base")
    assert again.returncode == 0, again.stderr
    assert "its Python is gone: it is made anew" in again.stdout


@pytest.mark.long
def test_a_pip_that_outlives_its_set_up_is_waited_for(tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, TOOL, "--into", tmp_path, "base"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob("lib/python*/site-packages/pip/__main__.py")):
            assert process.poll() is None
            time.sleep(0.005)
        while not (tmp_path / "tmp").exists():
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(0.2)  # pip is at work
        process.kill()
    again = run(tmp_path, "base")
    assert again.returncode == 0, again.stderr + again.stdout
    assert run(tmp_path, "base").stdout == ""
