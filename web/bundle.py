"""Make the browser bundle: a folder with the whole engine that a plain page can import.

``python web/bundle.py FOLDER`` needs npm, which brings Pyodide and the noble libraries by name and
exact version; whoever serves the folder needs nothing. The engine is Lace's own source; only
hashing and curve arithmetic are done by JavaScript instead of native code.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from runpy import run_path

from fetching import WEB, fetch
from vendor import ROOT, licences

BROWSER = WEB / "browser"
SOURCE = ROOT / "src" / "lace"
PYODIDE = ("pyodide.mjs", "pyodide.asm.wasm")
ASSEMBLY = "pyodide.asm.mjs"
LOCK = "pyodide-lock.json"
OFFLINE = "offline.js"
SCRIPTS = ("lace.mjs", "worker.mjs", "engine.mjs")
PLAIN = ("lace.d.mts", "example.html")
README = ROOT / "docs" / "browser.md"
PACKAGE = {
    "name": "lace-engine",
    "description": "SQLite, but for converging signed record sets: Lace in a page",
    "license": "Apache-2.0",
    "type": "module",
    "exports": {
        ".": {"types": "./lace.d.mts", "default": "./lace.mjs"},
        "./*": "./*",  # pages import files, and web servers serve them
    },
}
# A page has no commands, no Spark, no server and no files; the workbench's parts come on demand.
LEFT_OUT = frozenset((
    "__main__.py", "__pycache__", "allocator.py", "api/rooms.py", "api/rows.py", "backups.py",
    "blocking.py", "bulk.py", "checking.py", "cli", "crypto/curve.py", "crypto/libsecp256k1.py",
    "crypto/plain.py", "crypto/sealing.py", "currents.py", "differences.py", "drafts.py",
    "drawing.py", "exporting.py", "extras.py", "importing.py", "invitations.py", "keyring.py",
    "kit", "lake", "live.py", "picture.py", "projection.py", "raster.py",
    "recordstore/files.py", "reference.py", "repeats.py", "retold.py", "rulefiles.py",
    "server.py", "serving", "serving.py", "settings.py", "shapes.py", "shares.py",
    "sqlite_file.py", "sqlite_links.py", "sqlite_reserve.py", "sqlite_rows.py",
    "sqlite_snapshot.py", "static", "unison.py", "waiting.py", "workbench/export.py",
))  # fmt: skip
LEFT_OUT_TRANSPORTS = frozenset(
    ("sockets.py", "stdio.py", "tcp.py", "tls.py", "unix.py", "websocket.py")
)
ON_DEMAND = frozenset(("scenario", "workbench"))
OURS = {
    "lace/crypto/native.py": "native.py", "lace/transport/dial.py": "dial.py",
    "blake3.py": "blake3.py", "lace_browser.py": "lace_browser.py", "lace_made.py": "made.py",
    "lace_told.py": "told.py", "sitecustomize.py": "sitecustomize.py",
    "lace/recordstore/sqlite.py": "nofiles.py", "pyodide/_package_loader.py": "loader.py",
}  # fmt: skip


def sources() -> dict[str, dict[str, Path]]:
    """Return what the archive of each part holds, by the name it has there."""
    engine: dict[str, Path] = {}
    workbench: dict[str, Path] = {}
    for path in sorted(SOURCE.rglob("*")):
        inner = path.relative_to(SOURCE)
        left_out = LEFT_OUT | LEFT_OUT_TRANSPORTS if inner.parts[0] == "transport" else LEFT_OUT
        if path.suffix == ".py" and not left_out & {*inner.parts, inner.as_posix()}:
            part = workbench if inner.parts[0] in ON_DEMAND else engine
            part[f"lace/{inner.as_posix()}"] = path
    for path in sorted((ROOT / "scenarios").glob("*.toml")):
        workbench[f"lace/scenario/files/{path.name}"] = path
    engine |= {name: BROWSER / file for name, file in OURS.items()}
    return {"engine": engine, "workbench": workbench}


def archive(folder: Path) -> None:
    """Have Pyodide compile the parts, and write an archive of each."""
    with tempfile.TemporaryDirectory() as staged:
        for part, files in sources().items():
            for name, path in files.items():
                place = Path(staged) / part / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)
        made = folder.resolve()
        node = shutil.which("node")
        if node is None:
            sys.exit("web/bundle.py needs node, which comes with npm")
        subprocess.run([node, "browser/pack.mjs", staged, made], cwd=WEB, check=True)


def version() -> str:
    """Return the version of Lace."""
    return str(run_path(str(SOURCE / "_version.py"))["__version__"])


def write_offline(folder: Path) -> None:
    """Write the service worker: it knows the files that a page needs, and changes with them."""
    names = sorted([*SCRIPTS, *PYODIDE, ASSEMBLY, LOCK, "engine.zip"])
    digest = hashlib.sha256()
    for name in names:
        digest.update((folder / name).read_bytes())
    text = (BROWSER / OFFLINE).read_text(encoding="utf-8")
    for line in ("const FILES = ", "const VERSION = "):
        assert text.count(line) == 1, line
    text = re.sub("const FILES = .*", f"const FILES = {json.dumps(names)};", text)
    text = re.sub("const VERSION = .*", f'const VERSION = "{digest.hexdigest()[:16]}";', text)
    (folder / OFFLINE).write_text(text, encoding="utf-8")


def bundle(folder: Path) -> None:
    """Write the bundle."""
    modules = fetch(WEB)
    folder.mkdir(parents=True, exist_ok=True)
    for name in PYODIDE:
        shutil.copy(modules / "pyodide" / name, folder / name)
    lock = json.loads((modules / "pyodide" / LOCK).read_text(encoding="utf-8"))
    # No packages of Pyodide are loaded; where they would come from is nobody's business.
    (folder / LOCK).write_text(json.dumps({"info": lock["info"], "packages": {}}), encoding="utf-8")
    packed = {ASSEMBLY: modules / "pyodide" / ASSEMBLY}
    for name, path in packed.items() | {name: BROWSER / name for name in SCRIPTS}.items():
        options = ["--bundle"] if name in SCRIPTS else []
        options += [] if name == "lace.mjs" else ["--minify"]
        subprocess.run(
            [
                modules / ".bin" / "esbuild", path.resolve(), *options, "--format=esm",
                "--target=es2022", "--log-level=error", f"--outfile={(folder / name).resolve()}",
            ],
            cwd=WEB, check=True,
        )  # fmt: skip
    archive(folder)
    for name in PLAIN:
        shutil.copy(BROWSER / name, folder / name)
    shutil.copy(README, folder / "README.md")
    write_offline(folder)
    about = json.dumps(PACKAGE | {"version": version()}, indent=2)
    (folder / "package.json").write_text(f"{about}\n", encoding="utf-8")
    names = ["pyodide", "@noble/curves", "@noble/hashes"]
    text = f"Lace itself is under Apache-2.0.\n\n{licences(modules, names)}"
    (folder / "LICENSES.txt").write_text(text, encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "lace-browser"
    bundle(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    wanted = json.loads((WEB / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    print(f"{folder}: {size / 1e6:.1f} MB with Pyodide {wanted['pyodide']}; open example.html")


if __name__ == "__main__":
    main()
