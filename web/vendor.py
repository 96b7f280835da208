"""Bundle the page's libraries into files that are committed, so that nobody else needs npm.

Run it after changing web/package.json: ``python web/vendor.py``. It installs the packages by name
and exact version, bundles them, and writes their licences and a manifest beside them. The manifest
says which packages went into which file, and what its bytes are.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fetching import WEB, fetch, pins

ROOT = WEB.parent
VENDOR = ROOT / "src" / "lace" / "workbench" / "static" / "vendor"
AXE = ROOT / "tests" / "browser" / "vendor"
BUNDLES = {"preact": "preact.entry.js", "codemirror": "codemirror.entry.js"}
MANIFEST = "manifest.json"
BUNDLER = "esbuild"


def bundle(modules: Path) -> dict[str, list[str]]:
    """Write one file a bundle, the same bytes for the same versions; return what went into each."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, entry in BUNDLES.items():
            report = Path(folder) / f"{name}.json"
            subprocess.run(
                [
                    modules / ".bin" / BUNDLER, entry, "--bundle", "--minify", "--format=esm",
                    "--target=es2022", "--legal-comments=none", f"--metafile={report}",
                    f"--outfile={VENDOR / name}.js",
                ],
                cwd=WEB, check=True,
            )  # fmt: skip
            inputs = json.loads(report.read_text(encoding="utf-8"))["inputs"]
            found[f"{name}.js"] = sorted({package_of(path) for path in inputs} - {""})
    return found


def package_of(path: str) -> str:
    """Return the package that a source file belongs to; nothing for a file of this project."""
    _, found, inner = path.rpartition("node_modules/")
    if not found:
        return ""
    return "/".join(inner.split("/")[: 2 if inner.startswith("@") else 1])


def package(modules: Path, name: str) -> dict[str, str]:
    """Return the version and the licence of an installed package."""
    about = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
    return {"version": about["version"], "licence": about["license"]}


def licences(modules: Path, names: list[str]) -> str:
    """Return the licences of all packages, one after the other."""
    parts = []
    for name in names:
        about = package(modules, name)
        files = sorted((modules / name).glob("LICEN[CS]E*"))
        text = files[0].read_text(encoding="utf-8") if files else about["licence"]
        parts.append(f"{name} {about['version']} ({about['licence']})\n\n{text.strip()}\n")
    return ("\n" + "-" * 80 + "\n\n").join(parts)


def write_manifest(
    folder: Path,
    modules: Path,
    pinned: Mapping[str, str],
    files: Mapping[str, list[str]],
    *,
    bundled: bool,
) -> None:
    """Write what the files of a folder are and what they were made from; refuse what has no pin."""
    names = sorted({name for inside in files.values() for name in inside})
    packages = {name: package(modules, name) for name in names}
    for name, about in packages.items():
        if about["version"] != pinned.get(name):
            sys.exit(
                f"{name} {about['version']} went into {folder.relative_to(ROOT)}, and "
                f"web/package.json pins {pinned.get(name, 'no version of it')}: pin this version"
            )
    listed = {
        path.name: {
            "packages": files.get(path.name, []),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST
    }
    manifest: dict[str, object] = {"files": listed, "packages": packages}
    if bundled:
        manifest["bundled_with"] = {BUNDLER: package(modules, BUNDLER)["version"]}
    text = json.dumps(manifest, indent=2) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def main() -> None:
    wanted = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    pinned = pins(WEB)
    modules = fetch(WEB)
    VENDOR.mkdir(parents=True, exist_ok=True)
    AXE.mkdir(parents=True, exist_ok=True)
    files = bundle(modules)
    files["LICENSES.txt"] = sorted(wanted["dependencies"])
    text = licences(modules, files["LICENSES.txt"])
    (VENDOR / "LICENSES.txt").write_text(text, encoding="utf-8")
    write_manifest(VENDOR, modules, pinned, files, bundled=True)
    axe = ["axe-core"]
    shutil.copy(modules / "axe-core" / "axe.min.js", AXE / "axe.min.js")
    (AXE / "LICENSE.txt").write_text(licences(modules, axe), encoding="utf-8")
    write_manifest(AXE, modules, pinned, {"axe.min.js": axe, "LICENSE.txt": axe}, bundled=False)
    for file in sorted([*VENDOR.iterdir(), *AXE.iterdir()]):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
