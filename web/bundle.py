"""Make the browser bundle: a folder with the whole engine that a plain page can import.

``python web/bundle.py FOLDER`` needs npm, which brings Pyodide and the noble libraries by name and
exact version; whoever serves the folder needs nothing. The engine is Lace's own source; only
hashing and curve arithmetic are done by JavaScript instead of native code.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from vendor import ROOT, WEB, install, licences

BROWSER = WEB / "browser"
SOURCE = ROOT / "src" / "lace"
PYODIDE = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
LEFT_OUT = frozenset(("cli", "lake", "static", "__pycache__"))
STAMP = (2020, 1, 1, 0, 0, 0)  # the same files give the same archive


def sources() -> dict[str, Path]:
    """Return what the archive holds, by the name it has there."""
    found = {}
    for path in sorted(SOURCE.rglob("*")):
        inner = path.relative_to(SOURCE)
        if path.suffix in {".py", ".sql"} and not LEFT_OUT & set(inner.parts):
            found[f"lace/{inner.as_posix()}"] = path
    for path in sorted((ROOT / "scenarios").glob("*.toml")):
        found[f"lace/scenario/files/{path.name}"] = path
    found["lace/crypto/native.py"] = BROWSER / "native.py"
    found["blake3.py"] = BROWSER / "blake3.py"
    found["lace_browser.py"] = BROWSER / "lace_browser.py"
    return found


def bundle(folder: Path) -> None:
    """Write the bundle."""
    modules = install()
    folder.mkdir(parents=True, exist_ok=True)
    for name in PYODIDE:
        shutil.copy(modules / "pyodide" / name, folder / name)
    subprocess.run(
        [
            modules / ".bin" / "esbuild", "browser/noble.entry.js", "--bundle", "--minify",
            "--format=esm", "--target=es2022", "--log-level=warning",
            f"--outfile={(folder / 'noble.mjs').resolve()}",
        ],
        cwd=WEB, check=True,
    )  # fmt: skip
    with zipfile.ZipFile(folder / "lace.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sources().items():
            entry = zipfile.ZipInfo(name, STAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    for name in ("lace.mjs", "example.html"):
        shutil.copy(BROWSER / name, folder / name)
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
