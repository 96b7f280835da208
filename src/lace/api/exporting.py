"""Records into files: as they are, or as tables and JSON Lines for other programs.

A file appears under its name when it is complete. Memory stays below one batch of records.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from lace.answering.selection import Selection
from lace.api.handles import Lace, in_steps, in_worker, store_of
from lace.api.importing import Form
from lace.api.policies import Policy, policy_of
from lace.drafts import DraftFile, exists_already
from lace.errors import Code, UsageError
from lace.projection import HASH, Projection, entry_of, field_names, repeated_fields
from lace.record.model import Record
from lace.recordstore.base import RecordStore, StoreRecordId
from lace.recordstore.files import keep_store
from lace.text import shown
from lace.values import DATA, Value

__all__ = ["Exported", "export_file"]

BY_SUFFIX: Final[dict[str, Form]] = {
    ".records": "records",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
_BATCH_RECORDS: Final = 1000
_CSV_HEAD: Final = (HASH, "Group", "App", "Name", "TAI", "Signed-By")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written, so far or in all."""

    records: int = 0
    """How many were written."""
    of: int = 0
    """How many there are to write."""
    in_base64: int = 0
    """How many have data that is no text; a CSV table has it in base64, other forms as it is."""
    first_only: tuple[str, ...] = ()
    """Fields that occur again in a record; a table has only their first value."""

    @property
    def missing(self) -> int:
        """How many were selected and not written; in all, those that could not be read."""
        return self.of - self.records


async def export_file(
    local: Lace,
    target: str | Path | BinaryIO,
    policy: Policy | None = None,
    *,
    form: Form | None = None,
    overwrite: bool = False,
    listen: Callable[[Exported], None] | None = None,
) -> Exported:
    """Write what a selector selects, in the order in which it was stored; return how much.

    ``form`` is told by the name of the file if it is not said: ``.records`` for records as they
    are, which any lace can import, ``.jsonl`` and ``.csv`` for other programs, ``.parquet`` with
    the extra ``arrow``. A file appears under its name when it is complete. A record that was
    selected and cannot be read is left out, and counted as ``missing``.
    """
    if form is None:
        suffix = Path(target).suffix if isinstance(target, str | Path) else ""
        if suffix not in BY_SUFFIX:
            known = ", ".join(BY_SUFFIX)
            raise UsageError(
                f"{shown(str(target))} does not tell its form; names that do end in {known}",
                code=Code.INPUT_FILE,
            )
        form = BY_SUFFIX[suffix]
    inner, module, limits = store_of(local), policy_of(local, policy), local.limits
    with ExitStack() as stack:
        if isinstance(target, str | Path):
            file = stack.enter_context(_new_file(Path(target), overwrite=overwrite))
        else:
            file = target
        chosen = await in_worker(local, lambda: Selection(inner, module, limits).hashes())
        return await in_steps(local, _export(inner, chosen, file, form), Exported(), listen)


def _export(store: RecordStore, chosen: set[str], file: BinaryIO, form: Form) -> Iterator[Exported]:
    """Write records batch by batch; yield the count after each, and at the end."""
    count = Exported(of=len(chosen))
    write: _Writer = _FORMS[form](file, lambda: _batches(store, chosen))
    for batch in _batches(store, chosen):
        write.take(batch)
        count = replace(count, records=count.records + len(batch), in_base64=write.in_base64)
        yield count
    write.finish()
    yield replace(count, first_only=tuple(sorted(write.first_only)))


def _batches(store: RecordStore, chosen: set[str]) -> Iterator[list[Record]]:
    after = StoreRecordId(0)
    while read := store.read(after, _BATCH_RECORDS):
        after = read[-1].id
        found = (store.load(stored.hash) for stored in read if stored.hash in chosen)
        batch = [record for record in found if record is not None]
        if batch:
            yield batch


class _Writer:
    """Writes records to a file in one form; ``again`` reads them all, for what is known later."""

    def __init__(self, file: BinaryIO, again: Callable[[], Iterator[list[Record]]]) -> None:
        self._file = file
        self.first_only: set[str] = set()
        """Fields of which not all values were written."""
        self.in_base64 = 0
        """Records of which the data was written in base64, without a mark."""
        self._begin(again)

    def _begin(self, again: Callable[[], Iterator[list[Record]]]) -> None:
        """Write what stands before all records."""

    def take(self, batch: list[Record]) -> None:
        """Write records."""
        raise NotImplementedError

    def finish(self) -> None:
        """Write what stands after all records."""


class _Bundle(_Writer):
    def take(self, batch: list[Record]) -> None:
        self._file.write(b"".join(record.raw for record in batch))


class _JsonLines(_Writer):
    def take(self, batch: list[Record]) -> None:
        lines = (
            json.dumps(entry_of(record), ensure_ascii=False, sort_keys=True) for record in batch
        )
        self._file.write("".join(f"{line}\n" for line in lines).encode())


class _Csv(_Writer):
    def _begin(self, again: Callable[[], Iterator[list[Record]]]) -> None:
        names: set[str] = set()
        for batch in again():
            names.update(*map(field_names, batch))
            self.first_only.update(*map(repeated_fields, batch))
        self._columns = (*_CSV_HEAD, *sorted(names.difference(_CSV_HEAD)), DATA)
        self._write([self._columns])

    def take(self, batch: list[Record]) -> None:
        rows = Projection.of(batch, self._columns).rows
        self._write([self._text(cell) for cell in row] for row in rows)

    def _text(self, cell: Value) -> str:
        if isinstance(cell, bytes):
            try:
                return cell.decode()
            except UnicodeDecodeError:
                self.in_base64 += 1
                return b64encode(cell).decode()
        return str(cell) if cell is not None else ""

    def _write(self, rows: Iterable[Iterable[str]]) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        self._file.write(out.getvalue().encode())


class _Parquet(_Csv):
    def _write(self, rows: Iterable[Iterable[str]]) -> None:
        """A table of columns has its names in its schema."""

    def _begin(self, again: Callable[[], Iterator[list[Record]]]) -> None:
        from lace.extras import require

        require("arrow", "Parquet")
        import pyarrow.parquet as pq

        super()._begin(again)
        schema = Projection.of([], self._columns).to_arrow().schema
        self._parquet = pq.ParquetWriter(self._file, schema)

    def take(self, batch: list[Record]) -> None:
        self._parquet.write_table(Projection.of(batch, self._columns).to_arrow())

    def finish(self) -> None:
        self._parquet.close()


_FORMS: Final[dict[Form, type[_Writer]]] = {
    "records": _Bundle,
    "jsonl": _JsonLines,
    "csv": _Csv,
    "parquet": _Parquet,
}


@contextmanager
def _new_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Give a file that has its name only once it is complete."""
    if overwrite:
        keep_store(path)
    try:
        with DraftFile(path, overwrite=overwrite) as draft:
            yield draft.file
    except FileExistsError:
        raise exists_already(path) from None
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}",
            code=Code.INPUT_FILE,
            hint="Make room, or write it somewhere else.",
        ) from None
