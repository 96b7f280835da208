"""Builds the packages, and says in plain words what is wrong with them.

Each check returns one sentence for each fault, and none where all is well. The tests and
``release_check.py`` share them.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from lace.extras import PACKAGES

ROOT = Path(__file__).parent.parent
NAME = "lace_engine"
BASE = frozenset(("blake3", "btclib-libsecp256k1", "click", "rich", "unicodedata2", "websockets"))
ADDRESSES = frozenset(("Homepage",))
WHEEL_BYTES = 2_000_000
SDIST_BYTES = 8_000_000

# One file of each kind that only the package's users would miss.
_NEEDED = (
    "lace/pages/tutorial.md",
    "lace/py.typed",
    "lace/recordstore/schema.sql",
    "lace/scenario/files/notes-room.toml",
    "lace/workbench/static/index.html",
    "lace/workbench/static/recordings/notes-room.json",
    "lace/workbench/static/vendor/LICENSES.txt",
    "pyspark_lace.py",
)
_KINDS = frozenset(
    (
        ".css",
        ".html",
        ".js",
        ".json",
        ".md",
        ".py",
        ".sql",
        ".svg",
        ".toml",
        ".ts",
        ".txt",
        ".typed",
    )
)
# Where the files of the wheel stand in the repository.
_HOMES = {
    "src/lace/": "lace/",
    "scenarios/": "lace/scenario/files/",
    "src/pyspark_lace.py": "pyspark_lace.py",
    **{
        f"docs/{page}": f"lace/pages/{page}"
        for page in (
            "browser.md", "concepts/", "cookbook.md", "howto/", "lake.md", "policy.md",
            "records.md", "reference/", "rules.md", "streams.md", "tutorial.md", "why.md",
            "workbench.md",
        )
    },
}  # fmt: skip
_MADE = "PKG-INFO"  # the one file of the sdist that the build makes


@dataclass(frozen=True)
class Built:
    """The two packages of one version."""

    wheel: Path
    sdist: Path


def build(folder: Path, source: Path = ROOT) -> Built:
    """Build both packages of a tree into a folder, with the hatchling of this environment."""
    _run_hatchling(source, folder)
    (wheel,), (sdist,) = folder.glob(f"{NAME}-*.whl"), folder.glob(f"{NAME}-*.tar.gz")
    return Built(wheel, sdist)


def build_wheel(folder: Path, source: Path) -> Path:
    """Build the wheel alone."""
    _run_hatchling(source, folder, "-t", "wheel")
    (wheel,) = folder.glob(f"{NAME}-*.whl")
    return wheel


def _run_hatchling(source: Path, folder: Path, *more: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *more]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"hatchling cannot build {source}:\n{done.stdout}{done.stderr}")


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist; return the tree in it."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # Python before 3.11.4; the archive is our own
            archive.extractall(folder)  # noqa: S202
    return folder / sdist.name.removesuffix(".tar.gz")


def wheel_digests(wheel: Path) -> dict[str, str]:
    """Return the digest of each file in a wheel, by its name."""
    with zipfile.ZipFile(wheel) as archive:
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}


def sdist_files(sdist: Path) -> set[str]:
    """Return the names of the files in an sdist, without the folder that holds them all."""
    with tarfile.open(sdist) as archive:
        return {entry.name.partition("/")[2] for entry in archive if entry.isfile()}


def tracked_files(root: Path = ROOT) -> set[str] | None:
    """Return what git knows of a tree and is there; None if the tree is no checkout of git."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    command = [git, "-C", str(root), "ls-files", "-z"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"git cannot list the files of {root}: {done.stderr.strip()}")
    return {name for name in done.stdout.split("\0") if name and (root / name).exists()}


# --- checks ---------------------------------------------------------------------------------------


def wheel_faults(built: Built) -> list[str]:
    """Compare the wheel with the sdist: it holds what users need, and nothing else."""
    found = {name for name in wheel_digests(built.wheel) if ".dist-info/" not in name}
    expected = {
        home + name.removeprefix(place)
        for name in sdist_files(built.sdist)
        for place, home in _HOMES.items()
        if name.startswith(place)
    }
    faults = [f"the wheel lacks {name}" for name in sorted({*_NEEDED, *expected} - found)]
    strays = {name for name in found if Path(name).suffix not in _KINDS} | (found - expected)
    faults += [f"the wheel holds {name}, which does not belong there" for name in sorted(strays)]
    return faults + _size_faults(built.wheel, WHEEL_BYTES)


def sdist_faults(sdist: Path, tracked: set[str] | None, *, exactly: bool = False) -> list[str]:
    """Compare the sdist with what git tracks; ``exactly`` finds files that git does not know."""
    found = sdist_files(sdist)
    faults = []
    if tracked is not None:
        faults += [
            f"the sdist lacks {name}: add it to tool.hatch.build.targets.sdist in pyproject.toml"
            for name in sorted(tracked - found)
        ]
        if exactly:
            faults += [
                f"the sdist holds {name}, which git does not know: add it to git or remove it"
                for name in sorted(found - tracked - {_MADE})
            ]
    return faults + _size_faults(sdist, SDIST_BYTES)


def _size_faults(package: Path, most: int) -> list[str]:
    size = package.stat().st_size
    return [f"{package.name} has {size:,} bytes, at most {most:,}"] if size > most else []


def metadata_faults(wheel: Path) -> list[str]:
    """Look at what the package says of itself: dependencies, extras, addresses, description."""
    metadata = read_metadata(wheel)
    required = requirements(metadata)
    wanted = {"": BASE, **{extra: frozenset(names) for extra, names in PACKAGES.items()}}
    wanted["picture"] = frozenset(("pillow",))  # its module is called PIL
    wanted["all"] = frozenset().union(*(wanted[extra] for extra in PACKAGES))
    faults = [
        f"{f'extra {extra}' if extra else 'the package'} requires {_listed(required.get(extra))}, "
        f"expected {_listed(wanted.get(extra))}"
        for extra in sorted({*required, *wanted})
        if required.get(extra) != wanted.get(extra)
    ]
    extras = set(metadata.get_all("Provides-Extra", ()))
    if extras != {*PACKAGES, "all"}:
        faults.append(f"the extras are {_listed(extras)}, expected {_listed({*PACKAGES, 'all'})}")
    addresses = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", ()))
    faults += [f"there is no address for {name}" for name in sorted(ADDRESSES - addresses.keys())]
    faults += [
        f"the address of {name} is {address}: it must begin with https://"
        for name, address in addresses.items()
        if not address.startswith("https://")
    ]
    if metadata["Description-Content-Type"] != "text/markdown":
        faults.append(f"the description is {metadata['Description-Content-Type']}, not Markdown")
    text = str(metadata.get_payload())
    targets = list(link_targets(text))
    faults += [
        f"the description leads to {target}, which exists in the repository alone"
        for target in targets
        if not re.match(r"https://|mailto:|#", target)
    ]
    return faults


def read_metadata(wheel: Path) -> Message:
    """Return the metadata of a wheel; its payload is the description."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def requirements(metadata: Message) -> dict[str, frozenset[str]]:
    """Return the names of required packages by extra; those without one are under ""."""
    found: dict[str, set[str]] = {}
    for line in metadata.get_all("Requires-Dist", ()):
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        assert name is not None, line
        found.setdefault(extra[1] if extra else "", set()).add(name[0])
    return {extra: frozenset(names) for extra, names in found.items()}


def link_targets(text: str) -> Iterator[str]:
    """Yield where the links and images of a text of Markdown lead to."""
    waiting: list[Token] = MarkdownIt().parse(text)
    while waiting:
        token = waiting.pop()
        waiting += token.children or ()
        for name in ("href", "src"):
            if name in token.attrs:
                yield str(token.attrs[name])


def wheel_differences(one: Path, other: Path) -> list[str]:
    """Compare two wheels file by file; there is nothing to tell where they are the same."""
    left, right = wheel_digests(one), wheel_digests(other)
    return [
        f"{name} differs between the wheel of the tree and the wheel of the sdist"
        for name in sorted({*left, *right})
        if left.get(name) != right.get(name)
    ]


def _listed(names: Iterable[str] | None) -> str:
    return ", ".join(sorted(names or ())) or "nothing"
