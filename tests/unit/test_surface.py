"""The public names, the error tree and the limits."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import lace
from lace import errors
from lace.errors import Code, LaceError, LimitExceeded, Outcome, RecordError, Status
from lace.limits import Limits


def test_every_public_name_loads_and_nothing_else_is_public() -> None:
    assert dir(lace) == sorted(lace.__all__)
    for name in lace.__all__:
        assert getattr(lace, name) is not None
    assert set(lace.__all__) - {"__version__"} == set(lace._HOME_OF)
    with pytest.raises(AttributeError):
        _ = lace.nothing_of_this_name


def test_no_public_name_is_hidden_by_a_module() -> None:
    """Importing a module puts its name on the package, in the place of anything of that name."""
    modules = {module.name for module in pkgutil.iter_modules(lace.__path__)}
    assert modules.isdisjoint(lace.__all__)


def test_importing_lace_imports_nothing_heavy() -> None:
    heavy = ("click", "rich", "blake3", "coincurve", "unicodedata2")
    script = f"import lace, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_every_module_imports() -> None:
    for module in pkgutil.walk_packages(lace.__path__, "lace."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def test_codes_are_unique_and_explained() -> None:
    assert len({code.value for code in Code}) == len(list(Code))
    for code in Code:
        area, _, reason = code.value.partition(".")
        assert area.isalnum()
        assert reason
        assert code.meaning.endswith(".")
        assert code.fix.endswith(".")


def test_the_error_tree_has_one_root_and_stable_dicts() -> None:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, LaceError)
    error = LimitExceeded("facts", configured=1, observed=2)
    assert error.to_dict() == {
        "code": "limit.exceeded",
        "detail": "limit facts is 1, observed 2",
        "hint": Code.LIMIT_EXCEEDED.fix,
        "limit": "facts",
        "configured": 1,
        "observed": 2,
    }


def test_an_outcome_unwraps_to_its_value_or_raises_its_reason() -> None:
    assert Outcome(Status.ACCEPTED, 5).unwrap() == 5
    assert Outcome(Status.ACCEPTED, 5).ok
    rejected: Outcome[int] = Outcome(Status.REJECTED, None, Code.RECORD_TYPE, "why")
    assert not rejected.ok
    with pytest.raises(RecordError, match="why") as caught:
        rejected.unwrap()
    assert caught.value.code is Code.RECORD_TYPE


@pytest.mark.req("010-REC-12")
@pytest.mark.parametrize(
    "bad", [{"blob_bytes": -1}, {"header_line_bytes": 96}, {"blob_bytes": 10**15}]
)
def test_limits_that_no_record_could_meet_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        Limits(**bad)
