"""Runs in Pyodide when the bundle is made: write archives of compiled modules that pages load.

``/staged`` has one folder a part, with its sources; ``/made`` gets one archive a part. The first
part also gets what the interpreter and the part itself import from the standard library, and later
parts get what they need beyond that. Nothing else of the standard library goes to a page.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import marshal
import sys
import zipfile
from importlib.machinery import FrozenImporter
from pathlib import Path
from types import CodeType
from typing import Any

EXPLAINED = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
STAMP = (2020, 1, 1, 0, 0, 0)  # the same sources give the same archive
LATER = (
    # Imported by the standard library and by Pyodide only when something happens.
    "encodings.ascii", "encodings.cp437", "encodings.latin_1", "pyodide._run_js", "traceback",
)  # fmt: skip

UNNEEDED = (
    # What Pyodide's own loader of packages imports, which loader.py replaces, and what asyncio does
    # without where it is not there.
    "_ssl", "bz2", "compression", "email", "importlib.metadata", "lzma", "pyodide.common", "shutil",
    "ssl", "tempfile", "zipfile",
)  # fmt: skip


def standard_modules() -> dict[str, str]:
    """Return the text of every module that Pyodide brings along, by its place in its archive."""
    with zipfile.ZipFile("/lib/python314.zip") as archive:
        return {
            name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")
        }


def modules_of(folder: Path) -> dict[str, Path]:
    """Return the modules of a part by name."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def mentioned(text: str) -> set[str]:
    """Return the modules that a text imports anywhere, also within functions."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def load(folder: Path) -> None:
    """Import all of a part, and all that it may import later."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    if "lace" in sys.modules:
        sys.modules["lace"].__path__.append(str(folder / "lace"))
    modules = modules_of(folder)
    for name in modules:
        importlib.import_module(name)
    for path in modules.values():
        for name in sorted(mentioned(path.read_text())):
            if name.split(".")[0] in sys.stdlib_module_names and importlib.util.find_spec(name):
                importlib.import_module(name)


def is_needed(module: str) -> bool:
    """Whether a module was imported, and is neither in the interpreter itself nor unneeded."""
    if any(module == one or module.startswith(f"{one}.") for one in UNNEEDED):
        return False
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return spec is not None and spec.loader is not FrozenImporter


def bare(text: str, *, standard: bool) -> ast.Module:
    """Return a module without what nobody reads in a page: what explains it, types of arguments.

    Types of the standard library stay: some of it goes by them.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not standard:
            node.returns = None
        if isinstance(node, ast.arg) and not standard:
            node.annotation = None
        if isinstance(node, EXPLAINED) and ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Expr(ast.Constant("-"))  # a dataclass without one makes one
    return ast.fix_missing_locations(tree)


def lineless(code: CodeType) -> CodeType:
    """Return code that knows the first line of each function and no other.

    A location table has entries for up to eight instructions; ``13`` is the one without columns.
    """
    units = len(code.co_code) // 2
    spans = [min(8, units - at) for at in range(0, units, 8)]
    table = b"".join(bytes((0x80 | 13 << 3 | span - 1, 0)) for span in spans)
    inner = (lineless(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_linetable=table, co_consts=tuple(inner))


def compiled(name: str, text: str, *, standard: bool) -> bytes:
    """Return what a module is compiled to, as an archive holds it."""
    code = lineless(
        compile(bare(text, standard=standard), name, "exec", dont_inherit=True, optimize=0)
    )
    source = importlib.util.source_hash(text.encode())
    return bytes(importlib._bootstrap_external._code_to_hash_pyc(code, source, False))  # noqa: SLF001


def listen(texts: set[str]) -> None:
    """Have dataclasses tell each text that they compile: ``made.py`` has them compiled already."""

    def run(text: str, names: dict[str, Any], made: dict[str, Any]) -> None:
        texts.add(text)
        exec(text, names, made)  # noqa: S102 (what dataclasses themselves would do)

    dataclasses.exec = run


def made_of(texts: set[str]) -> str:
    """Return the text of a module that has these texts compiled."""
    from lace_made import key  # a module of the first part, which is loaded by now

    known = {key(text): text for text in sorted(texts)}
    codes = {at: marshal.dumps(lineless(compile(text, "", "exec"))) for at, text in known.items()}
    return f"CODES = {codes!r}\n"


def main() -> None:
    standard = standard_modules()
    packed: set[str] = set()
    texts: set[str] = set()
    listen(texts)
    for name in LATER:
        importlib.import_module(name)
    for folder in sorted(Path("/staged").iterdir()):
        texts.clear()
        load(folder)
        wanted = {f"lace_made_{folder.name}.py": made_of(texts).encode()}
        for path, text in standard.items():
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if is_needed(module) and path not in packed:
                wanted[path] = text.encode()
        packed |= set(wanted)
        for file in folder.rglob("*"):
            if file.is_file():
                wanted[file.relative_to(folder).as_posix()] = file.read_bytes()
        with zipfile.ZipFile(f"/made/{folder.name}.zip", "w") as archive:
            for path, data in sorted(wanted.items()):
                is_module = path.endswith(".py")
                entry = zipfile.ZipInfo(f"{path}c" if is_module else path, STAMP)
                held = (
                    compiled(path, data.decode(), standard=path in standard) if is_module else data
                )
                archive.writestr(entry, held)  # web servers compress better, and all at once


main()
