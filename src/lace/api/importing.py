"""Records from files: bundles as they are, JSON Lines and CSV through a mapping.

Whatever is imported was validated or is made here; nothing gets in otherwise. What is refused is
told with its place and its reason, and the rest goes on. Each batch is stored whole before the next
is read: an import that was cut off goes on when it is run again, and makes nothing twice.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from lace.api.handles import Lace, as_lace, checked_key, in_steps, store_of
from lace.api.repeats import Repeats
from lace.api.rows import (
    BOM,
    UTF8,
    Asked,
    RowMap,
    RowReader,
    asked_by,
    csv_rows,
    is_text,
    json_rows,
    lines_of,
)
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.crypto.native import digest
from lace.errors import Code, LaceError, RecordError, Status, UsageError
from lace.ids import RecordHash
from lace.limits import MIB, UNLIMITED
from lace.record import grammar
from lace.record.build import build_plex, seal
from lace.record.model import Plex, Record, Versioned
from lace.record.split import BrokenFrame, Frame, split_records
from lace.record.validate import validate_records
from lace.recordstore.base import RecordStore
from lace.recordstore.files import BEGIN
from lace.tai import Tai, add_ns
from lace.urc import Coordinate, VersionSelector

__all__ = ["Imported", "Refused", "import_file"]

Form = Literal["records", "jsonl", "csv", "parquet"]

_BATCH_RECORDS: Final = 1000
_BATCH_BYTES: Final = 8 * MIB
_CHUNK: Final = MIB
_VALIDATED_RECORDS: Final = 256  # together
_VALIDATED_BYTES: Final = MIB
_REASONS: Final = 100
_REASONS_BYTES: Final = MIB
_ARRAY: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*[{\]]")


@dataclass(frozen=True, slots=True)
class Refused:
    """Something of a file that is not stored, and why."""

    where: str
    """The line of a table, or the byte at which a record begins."""
    code: Code
    """Why, for programs."""
    detail: str
    """Why, in words."""
    content: str | bytes = b""
    """What stands there, if it can be read."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a line of the file that refused things are put aside in."""
        made: dict[str, Any] = {"where": self.where, "code": self.code, "detail": self.detail}
        if isinstance(self.content, bytes):
            return made | {"content_b64": b64encode(self.content).decode()}
        return made | {"content": self.content}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of the content of a file, so far or in all."""

    new: int = 0
    """Those that were stored."""
    present: int = 0
    """Those that were here already."""
    forgotten: int = 0
    """Those that were forgotten here for good, and are left out."""
    refused: int = 0
    """Those that are not valid, or could not be read."""
    reasons: tuple[Refused, ...] = ()
    """Of what was refused, the first hundred; with its content as far as that is 1 MiB together.

    ``put_aside`` of ``import_file`` is told of everything with its content."""
    bytes_read: int = 0
    """How much of the file was read."""
    signed_anew: int = 0
    """Rows that name another author; the records that were made of them are not that author's."""

    @property
    def read(self) -> int:
        """How many records or rows were read."""
        return self.new + self.present + self.forgotten + self.refused


async def import_file(
    local: Lace,
    source: str | Path | BinaryIO,
    *,
    rows: RowMap | None = None,
    form: Form | None = None,
    key: SigningKey | None = None,
    unsigned: bool = False,
    put_aside: Callable[[Refused], None] | None = None,
    listen: Callable[[Imported], None] | None = None,
) -> Imported:
    """Store what a file holds; return how much was new, was here already, and was refused.

    A file of records is validated and stored as it is. JSON Lines and CSV become records: by
    ``rows``, or without it each line is an object with ``place`` and ``fields``, ``data`` or
    ``data_b64`` and ``tai`` if it likes. They are signed with ``key``, else with that of the lace;
    without either, only ``unsigned`` makes records of them. A row with a time is here already if
    its author says the same at that place and time. Rows without a time are here already if the
    newest versions of their author at their place say the same in the same order. ``form`` is found
    out from the content if it is not said. ``put_aside`` is told of each thing that is refused,
    ``listen`` of the count after each batch.
    """
    signer = None if unsigned else checked_key(key) or as_lace(local).key
    work = Importer(store_of(local), rows, form, signer, unsigned, put_aside)
    with ExitStack() as stack:
        file = stack.enter_context(_opened(source)) if isinstance(source, str | Path) else source
        return await in_steps(local, work.steps(file), Imported(), listen)


@dataclass(slots=True)
class Importer:
    """Brings the content of files into a store, one batch at a time."""

    store: RecordStore
    rows: RowMap | None = None
    form: Form | None = None
    key: SigningKey | None = None
    unsigned: bool = False
    put_aside: Callable[[Refused], None] | None = None
    change_fields: Callable[[Coordinate, list[tuple[str, str]]], list[tuple[str, str]]] | None = (
        None
    )
    """Says what fields are meant where they are written in another way."""
    _count: Imported = field(default_factory=Imported)
    _read: int = 0
    _begun: Tai = field(default_factory=tai_now)
    _made: dict[tuple[Coordinate, Tai], list[bytes]] = field(default_factory=dict)
    """What this batch says at a place and time: it is not in the store yet."""
    _newest: dict[Coordinate, Tai] = field(default_factory=dict)
    """The time of the newest version, where it has not come."""
    _repeats: Repeats = field(init=False)
    _latest: Tai = field(init=False)

    def __post_init__(self) -> None:
        self._latest = self._begun
        self._repeats = Repeats(self._sayings)

    def steps(self, file: BinaryIO) -> Iterator[Imported]:
        """Do the work; yield the count after each batch, and at the end."""
        chunks = self._chunks(file)
        head = next(chunks, b"")
        form = self.form or self._form_of(head)
        if form != "records" and _ARRAY.match(head):
            raise UsageError(
                "this is one JSON array; it takes one object a line",
                code=Code.INPUT_JSON,
                hint="Write its objects as lines: jq -c '.[]' FILE | lace import -.",
            )
        if form == "parquet":
            raise UsageError("Parquet can be written, not read", code=Code.INPUT_FILE)
        if form == "csv" and self.rows is None:
            raise UsageError(
                "this is read as CSV: say what the columns of the table become",
                code=Code.INPUT_FILE,
                hint="With the command: --to //group//app// --name COLUMN. In Python: rows=RowMap.",
            )
        whole = _before(head, chunks)
        made = self._records(whole) if form == "records" else self._rows(whole, form)
        with closing(self._repeats):
            yield from self._batches(made)

    def _batches(self, made: Iterable[Record | None]) -> Iterator[Imported]:
        batch: list[Record] = []
        size = pending = 0
        for record in made:
            pending += 1
            if record is not None:
                batch.append(record)
                size += len(record.raw)
            if pending >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                yield self._save(batch)
                batch, size, pending = [], 0, 0
        yield self._save(batch)

    def _chunks(self, file: BinaryIO) -> Iterator[bytes]:
        while chunk := file.read(_CHUNK):
            self._read += len(chunk)
            yield chunk

    def _form_of(self, head: bytes) -> Form:
        if head.startswith(BEGIN):
            raise UsageError(
                "this is a store, no file of records",
                code=Code.INPUT_FILE,
                hint="Interlace with it: lace sync PATH.",
            )
        if not head or head.startswith((grammar.MARK, grammar.TRAILER_MARK)):
            return "records"
        start = head.removeprefix(BOM).lstrip()
        return "jsonl" if start.startswith(b"{") else "csv"

    def _save(self, batch: list[Record]) -> Imported:
        outcomes = self.store.save(batch) if batch else []
        new = sum(outcome.status is Status.ACCEPTED for outcome in outcomes)
        present = sum(outcome.status is Status.DUPLICATE for outcome in outcomes)
        self._made.clear()
        self._count = replace(
            self._count,
            new=self._count.new + new,
            present=self._count.present + present,
            forgotten=self._count.forgotten + len(outcomes) - new - present,
            bytes_read=self._read,
        )
        return self._count

    def _refuse(self, refused: Refused) -> None:
        if self.put_aside is not None:
            self.put_aside(refused)
        count = self._count
        reasons = count.reasons
        if len(reasons) < _REASONS:
            held = sum(len(reason.content) for reason in reasons)
            has_room = held + len(refused.content) <= _REASONS_BYTES
            reasons = (*reasons, refused if has_room else replace(refused, content=b""))
        self._count = replace(count, refused=count.refused + 1, reasons=reasons)

    def _are_here(self, number: int = 1) -> list[Record | None]:
        """Count what is here already; there is nothing to store for it."""
        self._count = replace(self._count, present=self._count.present + number)
        return [None] * number

    def _records(self, chunks: Iterable[bytes]) -> Iterator[Record | None]:
        """Yield the valid records of a file, and None for each that is not to be stored."""
        unknown: list[Frame] = []
        size = 0
        broken: BrokenFrame | None = None
        for frame in split_records(chunks):
            if isinstance(frame, BrokenFrame):
                broken = frame  # it is the last one
                break
            if self._is_here(frame.raw):
                yield from self._are_here()
                continue
            unknown.append(frame)
            size += len(frame.raw)
            if len(unknown) >= _VALIDATED_RECORDS or size >= _VALIDATED_BYTES:
                yield from self._validated(unknown)
                unknown, size = [], 0
        yield from self._validated(unknown)
        if broken is not None:
            detail = f"{broken.detail}; nothing after this can be read"
            self._refuse(Refused(f"byte {broken.offset}", broken.code, detail))
            yield None

    def _is_here(self, raw: bytes) -> bool:
        """Whether this is here to the last byte: then it was validated when it was stored."""
        claimed = raw[len(grammar.MARK) : grammar.MARKLINE_BYTES - 1].decode("ascii", "replace")
        here = self.store.load(RecordHash(claimed))
        return here is not None and here.raw == raw

    def _validated(self, frames: list[Frame]) -> Iterator[Record | None]:
        outcomes = validate_records([frame.raw for frame in frames])
        for frame, outcome in zip(frames, outcomes, strict=True):
            if outcome.value is None:
                code = outcome.code or Code.RECORD_MALFORMED
                self._refuse(Refused(f"byte {frame.offset}", code, outcome.detail, frame.raw))
            yield outcome.value

    def _rows(self, chunks: Iterable[bytes], form: Form) -> Iterator[Record | None]:
        if self.key is None and not self.unsigned:
            raise UsageError(
                "there is no key to sign with",
                code=Code.KEY_UNKNOWN,
                hint="Give a key, or say that the records are to be unsigned.",
            )
        make = RowReader(self.rows) if self.rows is not None else None
        lines = lines_of(chunks)
        check = None if make is None else make.check_columns
        for number, content, row in json_rows(lines) if form == "jsonl" else csv_rows(lines, check):
            where = f"line {number}"
            try:
                if isinstance(row, LaceError):
                    raise row
                if not is_text(content):
                    message = f"the line is not UTF-8: {UTF8}"
                    raise RecordError(message, code=Code.TEXT_UTF8)
                asked = asked_by(row) if make is None else make.asked(row)
                made = self._make(asked)
            except LaceError as error:
                found = content if is_text(content) else content.encode("utf-8", "surrogateescape")
                self._refuse(Refused(where, error.code, error.message, found))
                made = [None]
            yield from made
        yield from map(self._later, self._repeats.end())

    def _make(self, asked: Asked) -> list[Record | None]:
        """Return the records that are to be stored for a row; None for what is here already."""
        place = asked.place
        fields = asked.fields
        if self.change_fields is not None:
            fields = self.change_fields(place, fields)
        plex = build_plex(
            group=place.group,
            app=place.app,
            name=place.name,
            tai=asked.time or self._now(),
            extras=fields,
            data=asked.data,
        )
        if asked.time is None:
            made = self._next(place, plex)
        else:
            made = self._timed(place, asked.time, plex)
        signer = None if self.key is None else self.key.verifier
        if asked.author not in (None, signer) and made != [None]:
            self._count = replace(self._count, signed_anew=self._count.signed_anew + 1)
        return made

    def _now(self) -> Tai:
        """Return the time; each is later than the one before, also if the clock is a coarse one."""
        self._latest = max(tai_now(), add_ns(self._latest, 1))
        return self._latest

    def _timed(self, place: Coordinate, time: Tai, plex: Plex) -> list[Record | None]:
        """Decide about a row with a time: it is here if it was said at that place and time."""
        said = (_said_by(record) for record in self._versions(place, time))
        if _said_by(plex) in self._made.get((place, time), ()) or _said_by(plex) in said:
            return self._are_here()
        self._made.setdefault((place, time), []).append(_said_by(plex))
        return [self._signed(plex)]

    def _next(self, place: Coordinate, plex: Plex) -> list[Record | None]:
        """Decide about a row without a time: it is what holds at its place from now on."""
        here, new = self._repeats.take(place, _said_by(plex), plex)
        return [*self._are_here(here), *(self._later(row) for row in new)]

    def _later(self, plex: Plex) -> Record:
        """Sign a row with a time after that of its author's newest version at its place."""
        place = plex.coordinate
        newest = self._newest.get(place)
        if newest is not None and newest >= plex.tai:
            plex = _at(add_ns(newest, 1), plex)
            self._newest[place] = plex.tai
        return self._signed(plex)

    def _signed(self, plex: Plex) -> Record:
        return plex if self.key is None else seal(plex, self.key)

    def _sayings(self, place: Coordinate) -> list[bytes]:
        """Return what the author's versions at a place say, the oldest first, nothing twice on end.

        A version whose time has not come is noted: what is to hold has to be later.
        """
        said: list[bytes] = []
        for record in self._versions(place, None):
            if not said and record.tai >= self._begun:
                self._newest[place] = record.tai
            said.append(_said_by(record))
        return [one for one, _ in groupby(reversed(said))]

    def _versions(self, place: Coordinate, time: Tai | None) -> Iterator[Versioned]:
        """Yield the author's records at a place, and at a time if one is given, newest first."""
        signer = None if self.key is None else self.key.verifier
        version = VersionSelector(
            type="plex" if signer is None else "seal",
            verifier=signer,
            tai=time,
        )
        for hash in self.store.versions(replace(place, selector=version), UNLIMITED):
            record = self.store.load(hash)
            if isinstance(record, Versioned):
                yield record


def _said_by(record: Versioned) -> bytes:
    """Return what stands for the content of a record, whenever and by whomever it was said."""
    extras, data_digest = record.parts[-3:-1]
    return digest(extras + b"\n" + data_digest)


def _at(time: Tai, plex: Plex) -> Plex:
    """Return what says the same at another time."""
    return build_plex(
        group=plex.group, app=plex.app, name=plex.name, tai=time, extras=plex.extras, data=plex.data
    )


def _before(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _opened(source: str | Path) -> BinaryIO:
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}", code=Code.INPUT_FILE) from None
