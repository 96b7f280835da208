"""Unicode 16.0 by tables of that version and by later ones: the same answers for every code point."""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lace import unicode
from unicode_table import edges, table

CODE_POINTS = range(sys.maxunicode + 1)
# Of all code points: whether it is assigned, its class, its normal form. Every Python must find it.
DIGEST = "9a9c5cff39c7fa01ecc245606edcfdeff9592d88"


def digest_of(module: Any) -> str:
    found = hashlib.blake2b(digest_size=20)
    for character in map(chr, CODE_POINTS):
        if module.category(character) != "Cn":
            form = module.normalize("NFC", character)
            line = f"{character}{module.combining(character)}{form}"
            found.update(line.encode("utf-8", "surrogatepass"))
        else:
            found.update(b"-")
    return found.hexdigest()


def module_over(monkeypatch: pytest.MonkeyPatch, **tables: Any) -> ModuleType:
    """Return the module as it is on a Python, or with a package, of other tables."""
    for name, given in tables.items():
        monkeypatch.setitem(sys.modules, name, given)
    spec = spec_from_file_location("unicode_over_others", unicode.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def later(real: Any) -> Any:
    """Return tables of a version that assigns every code point, the new ones as marks."""

    def category(character: str) -> str:
        found = str(real.category(character))
        return "Mn" if found == "Cn" else found

    def combining(character: str) -> int:
        return 9 if real.category(character) == "Cn" else int(real.combining(character))

    return SimpleNamespace(
        unidata_version="99.0.0", category=category, combining=combining, normalize=real.normalize
    )


@pytest.mark.req("010-REC-08", "020-FAC-08")
def test_every_code_point_is_what_unicode_16_says() -> None:
    assert unicode.VERSION == "16.0.0"
    assert digest_of(unicode) == DIGEST


@pytest.mark.req("010-REC-08", "020-FAC-08")
def test_tables_of_a_later_version_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_over(monkeypatch, unicodedata=later(unicode.tables))
    assert module.tables.unidata_version == "99.0.0"
    assert digest_of(module) == DIGEST


def test_the_table_is_what_tables_of_this_version_assign() -> None:
    if unicode.tables.unidata_version != unicode.VERSION:
        pytest.skip(f"the tables here are of Unicode {unicode.tables.unidata_version}")
    made = edges(unicode.tables.category)
    assert made == unicode.edges()
    assert table(made) == unicode._STEPS.strip()


def test_what_a_version_assigns_keeps_its_class_and_its_form() -> None:
    """Unicode promises it; here Python's own tables are held against those that Lace uses."""
    ours, pythons = unicode.tables, unicodedata
    first, second = sorted((ours, pythons), key=version)
    for character in map(chr, CODE_POINTS):
        if first.category(character) != "Cn":
            assert second.category(character) != "Cn", hex(ord(character))
            assert second.combining(character) == first.combining(character), hex(ord(character))
            wanted = first.normalize("NFC", character)
            assert second.normalize("NFC", character) == wanted, hex(ord(character))


def version(tables: Any) -> list[int]:
    return [int(part) for part in tables.unidata_version.split(".")]


def early(number: str) -> Any:
    other: Callable[..., Any] = unicodedata.category
    return SimpleNamespace(unidata_version=number, category=other, combining=other, normalize=other)


def test_tables_of_an_earlier_version_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    sixteen = early("16.0.0")
    module = module_over(monkeypatch, unicodedata=early("15.1.0"), unicodedata2=sixteen)
    assert module.tables is sixteen
    with pytest.raises(ImportError, match=r"unicodedata2 16\.0\.0 or later, not 15\.0\.0"):
        module_over(monkeypatch, unicodedata=early("15.1.0"), unicodedata2=early("15.0.0"))


def test_python_itself_comes_before_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package may have installed any version of it."""
    own = early("16.0.0")
    assert module_over(monkeypatch, unicodedata=own, unicodedata2=early("18.0.0")).tables is own
