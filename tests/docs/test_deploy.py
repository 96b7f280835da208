"""What deploy/ and its page tell people to run exists, and does what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command import lace
from command_line import parse_command
from pages import Block, blocks, free_port
from servers import process

from lace.serving.grants import ServerLimits
from lace.serving.metrics import METRICS
from lace.transport.address import Scheme, parse_address

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
UNIT = ROOT / "deploy" / "lace.service"
PAGE = ROOT / "docs" / "howto" / "deploy.md"
IMAGES = ("lace", "lace-lake")
INSTALLED = "/opt/lace/bin/lace"

# Every directive that the unit uses; one that is missing here is new, or misspelt.
DIRECTIVES = {
    "Unit": {"Description", "Wants", "After", "StartLimitIntervalSec", "StartLimitBurst"},
    "Service": {
        "Type", "User", "Group", "UMask", "StateDirectory", "StateDirectoryMode",
        "RuntimeDirectory", "RuntimeDirectoryMode", "LoadCredential", "ExecStartPre", "ExecStart",
        "KillSignal", "TimeoutStopSec", "Restart", "RestartSec", "RestartPreventExitStatus",
        "LimitNOFILE", "MemoryMax", "TasksMax", "NoNewPrivileges", "CapabilityBoundingSet",
        "AmbientCapabilities", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices",
        "PrivateUsers", "ProtectProc", "ProcSubset", "ProtectClock", "ProtectControlGroups",
        "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables",
        "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
        "LockPersonality", "MemoryDenyWriteExecute", "RemoveIPC", "SystemCallArchitectures",
        "SystemCallFilter", "SystemCallErrorNumber",
    },
    "Install": {"WantedBy"},
}  # fmt: skip


def parse_unit(text: str) -> dict[str, list[tuple[str, str]]]:
    """Read a unit: sections of directives, which may stand there several times."""
    found: dict[str, list[tuple[str, str]]] = {}
    section = ""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
            found[section] = []
            continue
        name, equals, value = line.partition("=")
        assert equals, line
        assert name in DIRECTIVES[section], f"[{section}] {name}"
        found[section].append((name, value))
    return found


def service(text: str) -> dict[str, str]:
    return dict(parse_unit(text)["Service"])


def instructions(text: str) -> list[tuple[str, str]]:
    """Read a recipe: each instruction with its words."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", text))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines() if line]


def stages(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage by the stage's name."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for instruction, words in instructions(text):
        if instruction == "FROM":
            name = words.split(" AS ")[1]
        found.setdefault(name, []).append((instruction, words))
    return found


STAGES = stages(CONTAINERFILE.read_text(encoding="utf-8"))


def last(stage: str, instruction: str) -> str:
    return [words for name, words in STAGES[stage] if name == instruction][-1]


def container_command(stage: str) -> list[str]:
    """Return what a container runs if nothing else is said."""
    entry: list[str] = json.loads(last("base", "ENTRYPOINT"))
    words: list[str] = json.loads(last(stage, "CMD"))
    return entry + words


def lace_commands(line: str) -> Iterator[list[str]]:
    """Yield the words after ``lace`` in a line that runs it, here, installed or in a container."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["podman", "run"]:
        image = next(number for number, word in enumerate(words) if word in IMAGES)
        yield words[image + 1 :] or container_command("base")[1:]
    elif words[:2] == ["podman", "exec"]:
        assert words[3] == "lace", line
        yield words[4:]
    elif INSTALLED in words:
        yield words[words.index(INSTALLED) + 1 :]
    elif words[:1] == ["lace"]:
        yield words[1:]


def all_commands() -> list[tuple[str, list[str]]]:
    found = [
        (f"Containerfile, {stage}", container_command(stage)[1:]) for stage in ("base", "lake")
    ]
    found += [("lace.service", shlex.split(service(unit_text())["ExecStart"])[1:])]
    for block in blocks(PAGE, "4790"):
        lines = block.text.splitlines()
        if block.language == "ini":
            lines = [
                value for name, value in parse_unit(block.text)["Service"] if name == "ExecStart"
            ]
        for line in lines:
            text = line.removeprefix("$ ").removesuffix("&")
            found += [(f"deploy.md: {text}", words) for words in lace_commands(text)]
    return found


def unit_text() -> str:
    return UNIT.read_text(encoding="utf-8")


@pytest.mark.parametrize(("place", "words"), all_commands())
def test_every_command_exists_and_takes_its_arguments(place: str, words: list[str]) -> None:
    context = parse_command(words)
    for text in context.params.get("addresses", ()) + context.params.get("names", ()):
        assert parse_address(text.replace("%H", "host")).scheme in Scheme, place


def test_all_places_have_commands_and_a_wrong_one_would_be_seen() -> None:
    places = [place for place, _ in all_commands()]
    assert len(places) >= 15
    assert {place.partition(":")[0].partition(",")[0] for place in places} == {
        "Containerfile", "lace.service", "deploy.md",
    }  # fmt: skip
    with pytest.raises(click.UsageError):
        parse_command(["serve", "notes", "tcp:host", "--no-such-flag"])
    with pytest.raises(click.UsageError):
        parse_command(["serve", "notes"])
    with pytest.raises(AssertionError):
        parse_command(["serv", "notes", "tcp:host"])


def test_alerts_look_at_metrics_that_exist() -> None:
    (alerts,) = [block.text for block in blocks(PAGE, "4790") if block.language == "yaml"]
    names = set(re.findall(r"lace_\w+", alerts))
    assert len(names) == 4
    assert names <= set(METRICS)


def test_the_proxy_passes_on_to_where_the_server_listens() -> None:
    (proxy,) = [block.text for block in blocks(PAGE, "4790") if block.language == "nginx"]
    target = re.search(r"proxy_pass http://(\S+);", proxy)
    name = re.search(r"server_name (\S+);", proxy)
    path = re.search(r"location = (\S+) ", proxy)
    assert target
    assert name
    assert path
    assert path[1] == "/interlace"
    (serve,) = [words for _, words in all_commands() if "--proxy-cert" in words]
    assert f"ws:{target[1]}" in serve
    assert f"wss:{name[1]}" in serve
    assert serve[serve.index("--proxy-cert") + 1] in proxy


def test_no_secret_stands_on_a_command_line() -> None:
    for place, words in all_commands():
        keys = [words[n + 1] for n, word in enumerate(words) if word in {"--key", "--cert-key"}]
        assert all("/" in key for key in keys), f"{place}: not a file"


# --- the image ---


def copied(stage: str) -> list[str]:
    """Return what a stage takes from the source tree."""
    found = []
    for instruction, words in STAGES[stage]:
        if instruction == "COPY":
            assert not words.startswith("--from"), "stages hand over by mounts"
            found += words.split()[:-1]
    return found


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    names = [name for stage in STAGES if stage for name in copied(stage)]
    for name in names:
        assert (ROOT / name).exists(), name
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(names)


@pytest.mark.slow
def test_what_the_build_stage_copies_is_enough_for_the_whole_wheel(tmp_path: Path) -> None:
    few = tmp_path / "source"
    few.mkdir()
    for name in copied("build"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, few / name)
        else:
            (few / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, few / name)
    names = []
    for source, out in ((few, tmp_path / "few"), (ROOT, tmp_path / "all")):
        done = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out],
            cwd=source, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (wheel,) = out.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names.append(sorted(archive.namelist()))
    assert names[0] == names[1]
    assert "lace/cli/serve.py" in names[0]


def test_the_image_has_a_supported_python_and_installs_from_the_locks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (version,) = [words for name, words in STAGES[""] if name == "ARG"]
    python = version.removeprefix("PYTHON=")
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]
    for stage, lock in (("base", "base.txt"), ("lake", "all.txt")):
        installs = [words for name, words in STAGES[stage] if name == "RUN" and "pip" in words]
        assert f"--requirement /usr/share/lace/locks/{lock}" in installs[0]
        assert "--require-hashes" in installs[0]
        assert (ROOT / "locks" / lock).exists()
        assert last(stage, "USER") == "lace"
    for stage in ("build", "base", "lake"):
        assert last(stage, "FROM").startswith(("python:${PYTHON}-slim ", "base "))


def test_the_container_serves_is_healthy_and_ends_in_order(tmp_path: Path) -> None:
    """Its own words, on a folder and on ports of this machine."""
    assert lace("init", tmp_path / "lace", "--select", "//a//b//").returncode == 0
    port = free_port()
    known = {"/var/lib/lace": "lace", "tcp:0.0.0.0:4790": "tcp:127.0.0.1:0", "9790": port}
    words = container_command("base")
    assert words[:2] == ["lace", "serve"]
    assert known.keys() <= set(words)
    check = json.loads(last("base", "HEALTHCHECK").partition("CMD ")[2])
    assert check[0] == "python"
    health = [sys.executable, *(word.replace(":9790/", f":{port}/") for word in check[1:])]
    assert health[1:] != check[1:]
    with process(tmp_path, *(known.get(word, word) for word in words[2:])) as server:
        subprocess.run(health, check=True)
        assert server.stop() == 0
        assert server.events("stopped")
    assert subprocess.run(health, capture_output=True, check=False).returncode != 0


def test_the_image_says_where_records_and_peers_go() -> None:
    serve = parse_command(container_command("base")[1:]).params
    (address,) = [parse_address(text) for text in serve["addresses"]]
    assert last("base", "EXPOSE") == str(address.port)
    assert address.scheme is Scheme.TCP
    assert last("base", "VOLUME") == serve["store"] == last("base", "ENV").removeprefix("LACE=")


# --- the unit ---


def test_the_unit_has_the_sections_of_a_service() -> None:
    assert list(parse_unit(unit_text())) == ["Unit", "Service", "Install"]


def test_a_misspelt_directive_would_be_seen() -> None:
    with pytest.raises(AssertionError, match="ProtectHomes"):
        parse_unit("[Service]\nProtectHomes=yes\n")


def test_every_directive_of_the_service_is_explained_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in service(unit_text()):
        assert f"`{name}`" in page, name


def test_the_unit_leaves_room_for_what_the_server_allows_itself() -> None:
    limits = ServerLimits()
    found = service(unit_text())
    assert int(found["TimeoutStopSec"]) >= limits.grace_seconds + 5
    assert int(found["MemoryMax"].removesuffix("G")) * 1024 >= limits.memory_mib + 1024
    assert int(found["LimitNOFILE"]) >= 2 * limits.connections


def test_the_unit_is_bound_to_folders_of_its_own() -> None:
    found = service(unit_text())
    serve = parse_command(shlex.split(found["ExecStart"])[1:]).params
    assert serve["store"] == f"%S/{found['StateDirectory']}"
    assert serve["key_text"].startswith(f"%t/{found['RuntimeDirectory']}/")
    credential = found["LoadCredential"].partition(":")[0]
    install, _, _, source, target = shlex.split(found["ExecStartPre"])
    assert install == "/usr/bin/install"
    assert (source, target) == (f"%d/{credential}", serve["key_text"])


@pytest.mark.parametrize(
    "block",
    [block for block in blocks(PAGE, "4790") if block.language == "ini"],
    ids=lambda block: f"line-{block.line}",
)
def test_changes_on_the_page_fit_the_unit(block: Block, tmp_path: Path) -> None:
    commands = [value for name, value in parse_unit(block.text)["Service"] if name == "ExecStart"]
    assert commands[0] == "", "the command of the unit is taken away before another is given"
    assert len(commands) == 2
    assert complaints(tmp_path, unit_text(), block.text) == []


def test_systemd_takes_the_unit_and_would_not_take_another(tmp_path: Path) -> None:
    assert complaints(tmp_path, unit_text()) == []
    wrong = "[Service]\nProtectHomes=yes\n"
    assert "ProtectHomes" in "".join(complaints(tmp_path, unit_text(), wrong))


def complaints(folder: Path, unit: str, changes: str = "") -> list[str]:
    """Return what systemd itself says about a unit whose command exists; skip where it is not."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("NOT tested by systemd itself: systemd-analyze is not here")
    here = f'"{sys.executable}"'
    (folder / "lace.service").write_text(unit.replace(INSTALLED, here), encoding="utf-8")
    (folder / "lace.service.d").mkdir(exist_ok=True)
    changed = changes.replace(INSTALLED, here)
    (folder / "lace.service.d" / "override.conf").write_text(changed, encoding="utf-8")
    done = subprocess.run(
        [tool, "verify", folder / "lace.service"], capture_output=True, text=True, check=False
    )
    # What it says about other units of this machine does not matter here.
    return [line for line in done.stderr.splitlines() if "lace.service" in line]
