"""The installed wheel works without any extra, and says how to get what needs one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from environments import Environment

from lace._version import __version__
from lace.cli.lake import lake
from lace.extras import PACKAGES
from packages import BASE

pytestmark = pytest.mark.slow

RULES = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
PLACE = "//notes-demo//notes//"

# Every command of the lake but doctor, which is there to say what is missing.
LAKE = {
    "demo": (),
    "export": ("a.lake", "out"),
    "forget": ("a.lake", "S.x"),
    "forgotten": ("a.lake",),
    "index": ("a.records",),
    "info": ("a.lake",),
    "ingest": ("a.lake", "a.records"),
    "maintain": ("a.lake",),
    "quarantine": ("list", "a.lake"),
    "reconcile": ("a.lake", "b.lake", PLACE),
    "remember": ("a.lake", "--all"),
    "run": ("lake.toml",),
    "select": ("a.lake", PLACE),
    "serve": ("a.lake", "--select", PLACE),
    "shell": ("a.lake",),
    "sql": ("a.lake", "SELECT 1", "--view", f"notes={PLACE}"),
    "stream": ("a.lake", "incoming", "--checkpoint", "c"),
    "summarize": ("a.lake", PLACE, "--source", "V.x", "--all-fields"),
    "sync": ("a.lake", "tcp:127.0.0.1:1", "--select", PLACE),
    "why": ("a.lake", PLACE, "S.x"),
}
LIVE = ("lake", "stream", "a.lake", "tcp:127.0.0.1:1", "--checkpoint", "c", "--select", PLACE)
NEED_EXTRA = [
    *(("lake", "lake", name, *arguments) for name, arguments in LAKE.items()),
    ("lake", *LIVE),
    ("lake", "plumb", "lacegram", "eval", "a.lacegram", "--facts", "facts", "--engine", "spark"),
    ("workbench", "workbench"),
    ("picture", "scenario", "picture", "notes-room", "-o", "a.png"),
    ("devcert", "serve", "a.lace", "wss:127.0.0.1:0", "--select", PLACE, "--dev-cert", "cert"),
]


def line_for(extra: str) -> str:
    return f'Run: pip install "lace-engine[{extra}]".'


def test_the_environment_holds_the_base_alone(clean: Environment, tmp_path: Path) -> None:
    script = "import importlib.metadata as m; print(*(d.name.lower() for d in m.distributions()))"
    said = clean.run("python", "-c", script, cwd=tmp_path).stdout
    names = set(said.replace("_", "-").split())
    python_has_it = {"unicodedata2"} if sys.version_info >= (3, 14) else set()
    assert names >= BASE - python_has_it
    assert "lace-engine" in names
    assert names.isdisjoint({name for needed in PACKAGES.values() for name in needed})


@pytest.mark.parametrize(
    "command", [("lace", "--version"), ("python", "-m", "lace", "--version")], ids=" ".join
)
def test_the_version_is_told(clean: Environment, tmp_path: Path, command: tuple[str, ...]) -> None:
    done = clean.run(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"lace {__version__}\n", "")


def test_the_module_is_the_command(clean: Environment, tmp_path: Path) -> None:
    ran = [
        clean.run(*command, "--help", cwd=tmp_path)
        for command in (("lace",), ("python", "-m", "lace"))
    ]
    assert ran[0].returncode == 0
    assert ran[0].stdout == ran[1].stdout


def test_a_lace_is_made_and_used(clean: Environment, tmp_path: Path) -> None:
    def lace(*arguments: str) -> str:
        done = clean.run("lace", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lace("keyring", "new", "alice")
    lace("init", "notes", "--key", "alice", "--select", PLACE)
    place = "//notes-demo//notes/message//msg/1"
    hash = lace("add", place, "-f", "Title=Hello", "--text", "Hi", "--lace", "notes").strip()
    (row,) = map(json.loads, lace("list", "--lace", "notes").splitlines())
    assert row["hash"] == hash
    assert lace("get", place, "--data", "--lace", "notes") == "Hi"


def test_the_demo_runs(clean: Environment, tmp_path: Path) -> None:
    done = clean.run("lace", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "alice and bob each select the same" in done.stdout


def test_the_scenarios_and_the_page_came_along(clean: Environment, tmp_path: Path) -> None:
    for arguments in (("scenario", "test", "notes-room"), ("workbench", "--export", "site")):
        done = clean.run("lace", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "embargo" in clean.run("lace", "scenario", "list", cwd=tmp_path).stdout
    assert (tmp_path / "site" / "vendor" / "preact.js").stat().st_size > 1000


def test_every_command_has_its_help(clean: Environment, tmp_path: Path) -> None:
    """In one process: each command and each of its commands is asked for its help."""
    script = """
import click
from lace.cli.root import root, run

def walk(command, path):
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), [*path, name])

paths = list(walk(root, []))
bad = [path for path in paths if run([*path, "--help"]) != 0]
print("ASKED", len(paths), bad)
"""
    done = clean.run("python", "-c", script, cwd=tmp_path)
    asked, bad = done.stdout.rpartition("ASKED ")[2].split(" ", 1)
    assert (int(asked) > 50, bad.strip(), done.stderr) == (True, "[]", "")


def test_every_command_of_the_lake_is_tried_here() -> None:
    import click

    assert {*LAKE, "doctor"} == set(lake.list_commands(click.Context(lake)))


@pytest.mark.parametrize("command", NEED_EXTRA, ids=lambda command: " ".join(command[1:4]))
def test_what_needs_an_extra_says_how_to_get_it(
    clean: Environment, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "a.lacegram").write_text(RULES)
    (tmp_path / "facts").write_text("Have('x')\n")
    (tmp_path / "lake.toml").touch()
    for name in ("a.lace", "a.records"):
        (tmp_path / name).touch()
    extra, *arguments = command
    done = clean.run("lace", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    said, hint = done.stderr.splitlines()
    assert said.startswith("lace: ")
    assert "needs packages that are not installed: " + ", ".join(PACKAGES[extra]) in said
    assert hint.strip() == line_for(extra)
    assert not (tmp_path / "a.lake").exists()


def test_the_doctor_says_what_is_missing(clean: Environment, tmp_path: Path) -> None:
    done = clean.run("lace", "lake", "doctor", "--table", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    for name in PACKAGES["lake"]:
        assert f"NO  {name:15} not installed\n    {line_for('lake')}\n" in done.stdout


@pytest.mark.parametrize(
    ("extra", "code", "call"),
    [
        ("arrow", "dependency.missing", "lace.Projection.of([]).to_arrow()"),
        ("pandas", "dependency.missing", "lace.Projection.of([]).to_pandas()"),
        ("polars", "dependency.missing", "lace.Projection.of([]).to_polars()"),
        ("devcert", "dependency.missing", "tls.development_certificate(Path('cert'))"),
        ("passphrase", "dependency.missing", "lace.Keyring('keyring').seal('some words')"),
        ("lake", "lake.missing", "session.open_session()"),
    ],
)
def test_calls_that_need_an_extra_raise_one_error(
    clean: Environment, tmp_path: Path, extra: str, code: str, call: str
) -> None:
    script = f"""
from pathlib import Path
import lace
from lace.lake import session
from lace.transport import tls
try:
    {call}
except lace.UsageError as error:
    print(error.code, error.extra, error.hint)
"""
    done = clean.run("python", "-c", script, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{code} {extra} {line_for(extra)}\n", "")


def test_only_the_lake_and_the_server_need_more_to_be_imported(
    clean: Environment, tmp_path: Path
) -> None:
    script = """
import importlib, pkgutil, lace
for module in pkgutil.walk_packages(lace.__path__, "lace."):
    if not module.name.startswith(("lace.lake.", "lace.workbench.server", "lace.__main__")):
        importlib.import_module(module.name)
"""
    done = clean.run("python", "-c", script, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
