"""Cases of one test that each name the requirements they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def showing(
    cases: Mapping[str, Any] | Iterable[Mapping[str, Any]], shows: Mapping[str, str]
) -> list[Any]:
    """Return cases as parameters, each marked with the requirements that ``shows`` names for it.

    ``cases`` are values by name, or vectors, whose name is what ``why`` says. ``shows`` has the ids
    of a case, with blanks between. Every one of its names must be that of a case.
    """
    if not isinstance(cases, Mapping):
        cases = {case["why"]: case for case in cases}
    strange = shows.keys() - cases.keys()
    assert not strange, f"no such case: {sorted(strange)}"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            id=name,
            marks=[pytest.mark.req(*shows[name].split())] if name in shows else [],
        )
        for name, case in cases.items()
    ]
