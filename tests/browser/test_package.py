"""The bundle as an npm package: it installs, and its types hold for those who import it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parent.parent.parent / "web"
GOOD = """
import {
  IndexedDbLace, Lace, LaceError, LaceRecord, OpenInterlace, Peer, Selector, for_each, forget, get, list,
  offline, open_interlace, room, selector, store, subscribe, sync,
  type InterlaceEvent, type InterlaceResult, type NewRecord, type Outcome, type Storable,
} from "lace-engine";

const made: NewRecord = { place: "//g//a//n", fields: { Title: "T", Tag: ["a", "b"] }, data: "x" };
const seeds: Storable[] = [made, new Uint8Array(3)];
const local: IndexedDbLace = await IndexedDbLace.open("notes", { secret: await Lace.new_secret(), records: seeds });
const peer: Peer = await Lace.connect_websocket("wss://example.com/interlace", { expected: null });
const what: Selector = room("//g//a//", { authority: await Lace.verifier(await Lace.demo_secret("me")) });
const found: LaceRecord[] = await list(local, selector("//g//a//"));
const one: LaceRecord | null = await get(peer, "//g//a//n");
const outcomes: Outcome[] = await store(peer, found);
const result: InterlaceResult = await sync(local, peer, what);
const exchange: OpenInterlace = await open_interlace(local, "wss://example.com/interlace", what);
for await (const event of exchange) {
  const told: InterlaceEvent = event;
  if (told.event === "rejected") console.log(told.code, told.detail);
  if (told.event === "fixed-point") console.log(told.result.received.length);
}
for await (const record of for_each(local, "//g//a//")) {
  const date: Date | null = record.date;
  console.log(record.text, record.bytes.byteLength, record.fields["Title"]?.length, date?.getTime());
}
const end: () => void = subscribe(local, what, (record) => console.log(record.hash), (e) => console.log(e.hint));
end();
const gone: number = await local.forget("//g//a//");
const leads: boolean = await local.leads();
const valid = await Lace.validate(new Uint8Array());
console.log(one?.author, outcomes[0]?.status === "accepted", result.peer, gone, leads, valid.record?.hash);
try { await exchange.fixed_point(); } catch (e) { if (e instanceof LaceError) console.log(e.code, e.hint); }
await forget(local, what);
await offline("offline.js");
await exchange.close();
await local.close();
"""
WRONG = {
    "a selector is needed": "await list(local);",
    "a number is no selector": "await list(local, 5);",
    "a new record has a place": 'await store(local, [{ data: "x" }]);',
    "a new record has no other entries": 'await store(local, [{ place: "//g//a//n", at: "x" }]);',
    "records are read only": '(await local.list("//g//a//"))[0]!.hash = "x";',
    "a peer forgets nothing": 'await forget(peer, "//g//a//");',
    "nobody else makes a peer": "new Peer();",
    "an event has what its kind has": "for await (const e of exchange) console.log(e.result.peer);",
}  # fmt: skip
BEGIN = """
import { IndexedDbLace, Lace, OpenInterlace, Peer, forget, list, store } from "lace-engine";
declare const local: IndexedDbLace;
declare const peer: Peer;
declare const exchange: OpenInterlace;
console.log(Lace, Peer, forget, list, store, local, peer, exchange);
"""


@pytest.fixture(scope="module")
def project(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has installed the package as npm packs it."""
    folder = tmp_path_factory.mktemp("project")
    npm = shutil.which("npm")
    assert npm is not None
    packing = [npm, "pack", str(bundle), "--json", "--pack-destination", str(folder)]
    packed = subprocess.run(packing, capture_output=True, text=True, check=True, cwd=folder)
    (about,) = json.loads(packed.stdout)
    names = {file["path"] for file in about["files"]}
    assert {
        "lace.mjs",
        "lace.d.mts",
        "worker.mjs",
        "engine.zip",
        "README.md",
        "offline.js",
    } <= names
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    adding = [npm, "install", "--offline", "--no-audit", "--no-fund", f"./{about['filename']}"]
    subprocess.run(adding, capture_output=True, text=True, check=True, cwd=folder)
    return folder


def check(project: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Have TypeScript check a module with all its strictness."""
    (project / "page.ts").write_text(text, encoding="utf-8")
    command = [
        os.fspath(WEB / "node_modules" / ".bin" / "tsc"), "--strict", "--noEmit", "--target", "es2022",
        "--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.asynciterable",
        "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--types", "", "page.ts",
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=project)


def test_the_types_hold_for_everything_that_is_exported(project: Path) -> None:
    done = check(project, GOOD)
    assert done.returncode == 0, done.stdout
    script = (project / "node_modules" / "lace-engine" / "lace.mjs").read_text(encoding="utf-8")
    exported = script[script.rindex("export {") :]
    for name in exported.removeprefix("export {").split("}")[0].split(","):
        assert name.strip() in GOOD, f"{name.strip()} is exported, and its types are not tried here"


@pytest.mark.parametrize("mistake", WRONG)
def test_the_types_refuse_mistakes(project: Path, mistake: str) -> None:
    done = check(project, f"{BEGIN}{WRONG[mistake]}\n")
    errors = [line for line in done.stdout.splitlines() if "error TS" in line]
    assert len(errors) == 1, done.stdout
    assert errors[0].startswith(f"page.ts({BEGIN.count(chr(10)) + 1},"), done.stdout
