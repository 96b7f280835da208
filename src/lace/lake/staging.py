"""Rows that are held here, written into the lake for the workers, and dropped when all is done.

Rows that Spark's driver holds are part of every plan that mentions them, and are copied for each: a
hundred thousand advertisements, asked for by a few dozen rules, fill its memory. A file is read by
the workers alone, however often it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from lace.lake.delta import Listed
from lace.lake.places import filesystem
from lace.lake.reading import read_files
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGED_BYTES: Final = MIB
"""What Spark's driver holds of one table at most; more is written down."""
FOLDER: Final = "staged"


@dataclass(slots=True)
class Staging:
    """A folder of tables for one purpose; ``close`` removes it."""

    root: str
    """Of the lake."""
    _name: str = field(default_factory=lambda: uuid4().hex)
    _made: int = 0

    @property
    def folder(self) -> str:
        return f"{self.root}/{FOLDER}/{self._name}"

    def frame(self, spark: SparkSession, table: pa.Table) -> DataFrame:
        """Write a table down and return it as a frame that the workers read."""
        return read_files(spark, [self.write(table)], table.schema)

    def write(self, table: pa.Table) -> Listed:
        """Write a table down; return where it is."""
        folder = self.made_folder()
        uri = f"{folder}/{self._made}.parquet"
        system, path = filesystem(uri)
        pq.write_table(table, path, filesystem=system, compression="zstd")
        info = system.get_file_info(path)
        return Listed(uri, info.size, (info.mtime_ns or 0) // 1_000_000)

    def written(self, frame: DataFrame) -> DataFrame:
        """Have the workers write a frame down, and return what they wrote."""
        self._made += 1
        target = f"{self.folder}/{self._made}"
        frame.write.parquet(target)
        return frame.sparkSession.read.schema(frame.schema).parquet(target)

    def made_folder(self) -> str:
        """Return the folder, for whoever writes files into it."""
        system, path = filesystem(self.folder)
        system.create_dir(path, recursive=True)
        self._made += 1
        return self.folder

    def close(self) -> None:
        """Remove what was written; frames that were made of it can no longer be read."""
        system, path = filesystem(self.folder)
        if self._made and system.get_file_info(path).type == fs.FileType.Directory:
            system.delete_dir(path)
        self._made = 0
