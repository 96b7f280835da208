"""The public names, the error tree and the limits."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from typing import Any, NewType, get_args, get_type_hints

import pytest

import lace
from lace import api, blocking, errors
from lace.errors import Code, LaceError, LimitExceeded, Outcome, RecordError, Status
from lace.extras import left_out
from lace.limits import Limits


def test_every_public_name_loads_and_nothing_else_is_public() -> None:
    assert dir(lace) == sorted(lace.__all__)
    for name in lace.__all__:
        assert getattr(lace, name) is not None
    assert set(lace.__all__) - {"__version__"} == set(lace._HOME_OF)
    with pytest.raises(AttributeError):
        _ = getattr(lace, "nothing_of_this_name")  # noqa: B009  (a type checker refuses it too)


def test_a_lace_of_ones_own_is_read_without_anything_of_an_exchange() -> None:
    program = """
import asyncio, sys, lace

async def main():
    async with lace.open() as mine:
        assert await lace.list(mine, "//group//app//") == []

asyncio.run(main())
print([name for name in sys.modules if name.startswith(("lace.driving", "lace.interlace.m"))])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_what_a_module_offers_to_applications_the_package_offers_too() -> None:
    """Upwards: each name of ``__all__`` in the modules of the API is a name of the package."""
    modules = [f"lace.api.{found.name}" for found in pkgutil.iter_modules(api.__path__)]
    assert len(modules) >= 9
    for name in modules:
        offered = importlib.import_module(name).__all__
        assert sorted(offered) == sorted(lace._HOMES.get(name, ())), name
    for name, names in vars(errors).items():
        if isinstance(names, type) and names.__module__ == errors.__name__:
            assert name in lace.__all__, name
    for name in blocking.__dict__:
        if inspect.isfunction(getattr(blocking, name)) and not name.startswith("_"):
            assert name in lace.__all__, name


# Those of the rule engine are for tools, and their parts are found in its modules.
ENGINE = (
    "lace.datalog",
    "lace.policy.executable",
    "lace.policy.plan",
    "lace.policy.module",
    "lace.rules",
)


def test_what_an_application_is_given_it_can_name() -> None:
    """Whatever a public function returns, and whatever a public value holds, is public too."""
    public = {getattr(lace, name) for name in lace.__all__}
    hidden = set()
    for name in lace.__all__:
        value = getattr(lace, name)
        if isinstance(value, NewType) or not callable(value):
            continue
        if str(value.__module__).startswith(ENGINE):
            continue
        for what, hint in given_by(value):
            hidden |= {(name, what, kind) for kind in classes_in(hint) if kind not in public}
    assert not hidden


def given_by(value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, type):
        yield "return", get_type_hints(value).get("return")
        return
    if dataclasses.is_dataclass(value):
        hints = get_type_hints(value)
        for part in dataclasses.fields(value):
            if not part.name.startswith("_"):
                yield part.name, hints[part.name]
    for name, member in vars(value).items():
        method = member.fget if isinstance(member, property) else member
        if inspect.isfunction(method) and not name.startswith("_"):
            yield name, get_type_hints(method).get("return")


def classes_in(hint: Any) -> Iterator[type | NewType]:
    home = hint.__module__ if isinstance(hint, type | NewType) else ""
    if home.startswith("lace") and not home.startswith(ENGINE):
        yield hint
    for part in get_args(hint):
        yield from classes_in(part)


def test_no_public_name_is_hidden_by_a_module() -> None:
    """Importing a module puts its name on the package, in the place of anything of that name."""
    modules = {module.name for module in pkgutil.iter_modules(lace.__path__)}
    assert modules.isdisjoint(lace.__all__)


def test_importing_lace_imports_nothing_heavy() -> None:
    heavy = ("click", "rich", "blake3", "_btclib_libsecp256k1", "cffi", "ctypes", "unicodedata2")
    script = f"import lace, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_every_module_imports() -> None:
    for module in pkgutil.walk_packages(lace.__path__, "lace."):
        needs_lake = module.name.startswith("lace.lake.") and left_out("lake")
        if not module.name.endswith("__main__") and not needs_lake:
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


def test_a_traceback_says_what_to_do_too() -> None:
    with pytest.raises(LaceError) as caught:
        lace.connect("nowhere")
    assert caught.value.hint in "".join(traceback.format_exception(caught.value))


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
