"""What a scripted peer plays: two sides with selectors and records, and what has to come of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from lace import b64a
from lace.answering.store import StoreAnswers
from lace.crypto.keys import SigningKey, demo_key
from lace.drafts import write_file
from lace.driving.connection import Connection
from lace.driving.pair import interlace
from lace.errors import Code, LaceError, UsageError
from lace.ids import Verifier
from lace.interlace.machine import Side
from lace.interlace.messages import Closed
from lace.interlace.negotiate import CAPABILITIES
from lace.limits import DEFAULT_LIMITS, FIXED, Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record, build_blob, build_plex, seal, validate_record
from lace.recordstore.base import StoreRecordId
from lace.recordstore.memory import MemoryStore
from lace.selectors import any_of, selector, with_support
from lace.tai import Tai

SHOWN: Final = Exposure(default="selected")
"""What a side lets its peer's rules see, on both sides of a case."""

SELECTOR: Final = "selector.lacegram"
CHANGED: Final = "changed.lacegram"
"""Files that a side is given: what it selects, and what it is to select later on."""

_FIRST: Final = 1_600_000_000
_NOW: Final = Tai("1700000000:000000000")
_TEXTS: Final = (
    "plain",
    "it's",
    "back\\slash",
    "größer",
    "名前",
    "a, b",
    "(x)",
    "  two  ",
    "#",
    "🖧",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One side of a case."""

    module: PolicyModule
    records: tuple[Record, ...] = ()
    key: SigningKey | None = None
    limits: Limits = DEFAULT_LIMITS
    coarse: bool = True
    packs: bool = False
    changed: PolicyModule | None = None
    """A selector that it is to go on with when it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Two sides that meet once."""

    name: str
    parts: tuple[Part, Part]
    """The accepting side, then the connecting one."""
    stores: tuple[frozenset[str], frozenset[str]] = field(default=(frozenset(), frozenset()))
    """What each side has in the end, as this engine has it."""

    @property
    def records(self) -> dict[str, Record]:
        """Every record that either side has."""
        return {str(r.hash): r for part in self.parts for r in part.records}


# --- from a seed ---


def seeded(seed: int) -> Case:
    """Return the case of a seed: always the same one."""
    chance = Random(seed)  # noqa: S311 (the same case each time is the point)
    keys = [demo_key(f"kit {seed} {name}") for name in ("accepting", "connecting")]
    pool = _pool(chance, keys)
    modules = _modules(chance)
    parts = []
    for index in (0, 1):
        share = chance.choice((0.0, 0.2, 0.5, 0.9, 1.0))
        limits = DEFAULT_LIMITS
        if chance.random() < 0.5:
            limits = replace(limits, **dict.fromkeys(CAPABILITIES, 0))
        parts.append(
            Part(
                module=modules[index],
                records=tuple(record for record in pool if chance.random() < share),
                key=keys[index] if chance.random() < 0.5 else None,
                limits=limits,
                coarse=chance.random() < 0.5,
                packs=chance.random() < 0.5,
            )
        )
    case = _concluded(Case(name=f"seed {seed}", parts=(parts[0], parts[1])))
    assert case is not None
    return case


def _pool(chance: Random, keys: list[SigningKey]) -> list[Record]:
    made: list[Record] = []
    for number in range(chance.choice((1, 9, 40, 40, 150))):
        extras = [
            (name, chance.choice(_TEXTS)) for name in ("Tag", "Title") if chance.random() < 0.5
        ]
        if made and chance.random() < 0.2:
            extras.append(("+Link", f"evidence {chance.choice(made).hash}"))
        size = chance.choice((0, 0, 10, 500, 20_000))
        plex = build_plex(
            group=chance.choice(("kit", "kit", "kit", "elsewhere")),
            app=chance.choice(("notes", "notes/sub", "other")),
            name=f"n/{number}" if chance.random() < 0.7 else f"m/{number}",
            tai=f"{_FIRST + number}:{chance.randrange(10**9):09d}",
            extras=extras,
            data=chance.randbytes(size),
        )
        signer = chance.choice((None, *keys))
        made.append(
            plex if signer is None else seal(plex, signer, aux=b"\1" + chance.randbytes(31))
        )
        if chance.random() < 0.05:
            made.append(build_blob(chance.randbytes(9)))
    return made


def _modules(chance: Random) -> tuple[PolicyModule, PolicyModule]:
    whole = selector("//kit//notes//")
    narrow = selector("//kit//notes//n/")
    everything = module_from_text(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    return chance.choice((
        (whole, whole),
        (narrow, narrow),
        (whole, narrow),
        (everything, whole),
        (everything, everything),
        (any_of(whole, selector("//kit//other//")), whole),
        (with_support(whole), with_support(whole)),
        (selector("//kit//notes//", {"Tag": "it's"}), whole),
    ))  # fmt: skip


# --- from a file of vectors ---


def read_vectors(path: Path) -> list[Case]:
    """Return the cases of ``exchanges.json`` or ``streams.json`` that two real sides can play.

    Left out are those in which anything happens but a start, since they need a hand on both clocks,
    and those that do not come to a fixed point.
    """
    content = _read(path)
    entries = content.get("exchanges", content.get("streams"))
    if not isinstance(entries, list) or not isinstance(content.get("records"), dict):
        raise _unusable(path, "it has no exchanges or streams")
    try:
        pool = {hash: b64a.decode(text) for hash, text in content["records"].items()}
        made = [_from_vector(entry, pool) for entry in entries if _is_playable(entry)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unusable(path, f"{type(error).__name__} {error}") from None
    except LaceError as error:
        raise _unusable(path, error.message) from None
    return [case for case in made if case is not None]


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(FIXED.kit_file_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", code=Code.INPUT_FILE) from None
    if len(data) > FIXED.kit_file_bytes:
        raise _unusable(path, f"it has over {FIXED.kit_file_bytes} bytes")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise _unusable(path, "it is no JSON") from None
    if not isinstance(content, dict):
        raise _unusable(path, "it is no object")
    return content


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} holds no vectors: {why}", code=Code.INPUT_JSON)


def _is_playable(entry: Mapping[str, Any]) -> bool:
    known = {"module", "records", "limits", "coarse", "secret", "packs"}
    clocks = entry.get("steps", [{}])[0].get("clocks", [_NOW, _NOW])
    starts = len(entry.get("steps", [{}])) == 1 and clocks[0] == clocks[1] and "after" not in entry
    return starts and all(known >= side.keys() for side in entry["sides"])


def _from_vector(entry: Mapping[str, Any], pool: Mapping[str, bytes]) -> Case | None:
    parts = []
    for side in entry["sides"]:
        secret = side.get("secret")
        parts.append(
            Part(
                module=module_from_text(side["module"]),
                records=tuple(validate_record(pool[h]).unwrap() for h in side["records"]),
                key=None if secret is None else SigningKey(b64a.decode(secret)),
                limits=replace(DEFAULT_LIMITS, **side.get("limits", {})),
                coarse=side.get("coarse", True),
                packs=side.get("packs", False),
            )
        )
    return _concluded(Case(name=entry["why"], parts=(parts[0], parts[1])))


# --- what has to come of it ---


def store_of(records: Iterable[Record]) -> MemoryStore:
    """Return a store with these records."""
    store = MemoryStore()
    store.save(list(records))
    return store


def hashes(store: MemoryStore) -> frozenset[str]:
    """Return the names of all records of a store."""
    return frozenset(str(s.hash) for s in store.read(StoreRecordId(0), store.count() + 1))


def _concluded(case: Case) -> Case | None:
    """Return a case with what each side has in the end: this engine on both sides says it.

    None if there is no end that both come to whatever was offered before.
    """
    if any(part.module.offers_by_adverts for part in case.parts):
        return None
    sides = []
    stores = [store_of(part.records) for part in case.parts]
    for index, part in enumerate(case.parts):
        other = case.parts[1 - index]
        side = Side(
            index=index, module=part.module, limits=part.limits, coarse=part.coarse,
            verifier=_verifier(part), peer_verifier=_verifier(other),
        )  # fmt: skip
        answers = StoreAnswers.of(stores[index], side, SHOWN, part.limits)
        sides.append(Connection(side, lambda _side, answers=answers: answers))  # type: ignore[misc]
    interlace(sides[0], sides[1], _NOW)
    if not all(isinstance(side.ended, Closed) and side.ended.code is None for side in sides):
        return None
    return replace(case, stores=(hashes(stores[0]), hashes(stores[1])))


def _verifier(part: Part) -> Verifier | None:
    return None if part.key is None else part.key.verifier


# --- for the implementation that is tried ---


def prepare(case: Case, index: int, folder: Path) -> None:
    """Write what one side of a case starts with, for another implementation to load."""
    part = case.parts[index]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        records = b"".join(r.raw for r in part.records)
        write_file(folder / "records.records", records, overwrite=True)
        for name, module in ((SELECTOR, part.module), (CHANGED, part.changed)):
            (folder / name).unlink(missing_ok=True)
            if module is not None:
                write_file(folder / name, module.text, overwrite=True)
        secret = folder / "secret.key"
        secret.unlink(missing_ok=True)
        if part.key is not None:
            write_file(secret, part.key.reveal() + "\n", overwrite=True, mode=0o600)
        expected = {"name": case.name, "side": index, "ends_with": sorted(case.stores[index])}
        text = json.dumps(expected, ensure_ascii=False, indent=1) + "\n"
        write_file(folder / "expected.json", text, overwrite=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", code=Code.INPUT_FILE) from None
