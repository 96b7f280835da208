"""What is not installed with Lace itself: extras, the packages they bring, one sentence for all."""

from __future__ import annotations

import sys
from typing import Final

from lace.errors import Code, MissingExtra

PACKAGES: Final = {
    "arrow": ("pyarrow",),
    "devcert": ("cryptography",),
    "duckdb": ("duckdb", "sqlglot"),
    "lake": ("pyspark", "deltalake", "pyarrow", "pandas"),
    "pandas": ("pandas",),
    "passphrase": ("cryptography",),
    "picture": ("PIL",),
    "polars": ("polars",),
    "workbench": ("anyio", "starlette", "uvicorn"),
}
"""Each extra with the packages that are looked for; pyproject.toml says which versions."""
NOT_YET: Final = {
    "lake": ((3, 15), "PySpark needs pandas 2, which has no wheel for Python 3.15"),
}
"""Extras that Lace's newest Pythons lack: from which version on, and why. pyproject.toml leaves
their packages out there, so that installing such an extra succeeds and brings nothing."""
_CODES: Final = {"lake": Code.LAKE_MISSING, "workbench": Code.WORKBENCH_MISSING}


def left_out(extra: str, python: tuple[int, int] = sys.version_info[:2]) -> str | None:
    """Return why an extra cannot be installed on a Python, or None if it can."""
    since, why = NOT_YET.get(extra, ((4, 0), ""))
    if python < since:
        return None
    major, minor = since
    return f"{why}; Python 3.11 to {major}.{minor - 1} can have it."


def require(extra: str, what: str) -> None:
    """Raise ``MissingExtra`` unless everything is there that ``what`` needs; imports none of it."""
    from importlib.util import find_spec  # not needed just to start

    missing = [name for name in PACKAGES[extra] if find_spec(name) is None]
    if not missing:
        return
    code = _CODES.get(extra, Code.DEPENDENCY_MISSING)
    if why := left_out(extra):
        this = "{}.{}".format(*sys.version_info)
        raise MissingExtra(extra, f"{what} cannot run on Python {this} yet", code=code, hint=why)
    raise MissingExtra(
        extra, f"{what} needs packages that are not installed: {', '.join(missing)}", code=code
    )
