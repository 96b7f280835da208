"""What is not installed with Lace itself: extras, the packages they bring, one sentence for all."""

from __future__ import annotations

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
_CODES: Final = {"lake": Code.LAKE_MISSING, "workbench": Code.WORKBENCH_MISSING}


def require(extra: str, what: str) -> None:
    """Raise ``MissingExtra`` unless everything is there that ``what`` needs; imports none of it."""
    from importlib.util import find_spec  # not needed just to start

    missing = [name for name in PACKAGES[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            extra,
            f"{what} needs packages that are not installed: {', '.join(missing)}",
            code=_CODES.get(extra, Code.DEPENDENCY_MISSING),
        )
