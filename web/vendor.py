"""Bundle the page's libraries into files that are committed, so that nobody else needs npm.

Run it after changing web/package.json: ``python web/vendor.py``. It installs the packages by name
and exact version, bundles them, and writes their licences beside them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parent
ROOT = WEB.parent
VENDOR = ROOT / "src" / "lace" / "workbench" / "static" / "vendor"
AXE = ROOT / "tests" / "browser" / "vendor"
BUNDLES = {"preact": "preact.entry.js", "codemirror": "codemirror.entry.js"}


def install() -> Path:
    """Install the packages and return the folder they are in."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("web/vendor.py needs npm; users and tests do not")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent"], cwd=WEB, check=True)
    return WEB / "node_modules"


def bundle(modules: Path) -> None:
    """Write one file a bundle, the same bytes for the same versions."""
    esbuild = modules / ".bin" / "esbuild"
    for name, entry in BUNDLES.items():
        subprocess.run(
            [
                esbuild, entry, "--bundle", "--minify", "--format=esm", "--target=es2022",
                "--legal-comments=none", f"--outfile={VENDOR / name}.js",
            ],
            cwd=WEB, check=True,
        )  # fmt: skip


def licences(modules: Path, names: list[str]) -> str:
    """Return the licences of all packages, one after the other."""
    parts = []
    for name in names:
        package = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
        files = sorted((modules / name).glob("LICEN[CS]E*"))
        text = files[0].read_text(encoding="utf-8") if files else package["license"]
        parts.append(f"{name} {package['version']} ({package['license']})\n\n{text.strip()}\n")
    return ("\n" + "-" * 80 + "\n\n").join(parts)


def main() -> None:
    wanted = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    modules = install()
    VENDOR.mkdir(parents=True, exist_ok=True)
    AXE.mkdir(parents=True, exist_ok=True)
    bundle(modules)
    (VENDOR / "LICENSES.txt").write_text(
        licences(modules, sorted(wanted["dependencies"])), encoding="utf-8"
    )
    versions = json.dumps(wanted["dependencies"], indent=2) + "\n"
    (VENDOR / "versions.json").write_text(versions, encoding="utf-8")
    shutil.copy(modules / "axe-core" / "axe.min.js", AXE / "axe.min.js")
    (AXE / "LICENSE.txt").write_text(licences(modules, ["axe-core"]), encoding="utf-8")
    for file in sorted(VENDOR.iterdir()):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
