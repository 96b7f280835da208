"""Files of a table as a DataFrame, without a look at any of them before their rows are wanted.

A log says where the files are and how large. Spark asks the store about each file once more, which
takes longer than all else where there are many. It does not where it reads what one of its streams
wrote: there it believes a list that the stream left. So that is how it gets the list of a version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from lace.lake.delta import Listed
from lace.lake.places import filesystem, scheme_of, spark_place, spark_url
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ARROW_ROWS: Final = 4096
_IGNORES_LISTS: Final = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
_LIST: Final = "_spark_metadata"
_BLOCK: Final = 128 * MIB
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")
"""Characters of a path that Spark takes for a pattern."""


def read_files(
    spark: SparkSession, files: Sequence[Listed], schema: pa.Schema, *, with_file: bool = False
) -> DataFrame:
    """Return the rows of Parquet files, with exactly the columns of a schema.

    ``with_file`` adds a column ``file``: the name of the file that a row is in.
    """
    if not files:
        columns = [*schema, pa.field("file", pa.string())] if with_file else schema
        return spark.createDataFrame([], from_arrow_schema(pa.schema(columns)))
    if not spark_reads(spark, files[0].uri):
        return _read_by_arrow(spark, [file.uri for file in files], schema, with_file)
    frame = (_read_list if _takes_lists(spark) else _read_each)(spark, files, schema)
    if with_file:
        name = F.element_at(F.split(F.col("_metadata.file_path"), "/"), -1)
        frame = frame.select("*", name.alias("file"))
    return frame


def local_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return rows that are held here as a DataFrame."""
    if not table.num_rows:
        return spark.createDataFrame([], from_arrow_schema(table.schema))
    return spark.createDataFrame(cast("Any", table))


# --- by Spark -----------------------------------------------------------------------------------


def _takes_lists(spark: SparkSession) -> bool:
    """Whether Spark runs here and believes lists.

    A server elsewhere sees no file of this machine, and reads a list again with each question.
    """
    is_here = getattr(spark, "sparkContext", None) is not None
    return is_here and str(spark.conf.get(_IGNORES_LISTS, "false")).lower() != "true"


def _read_list(spark: SparkSession, files: Sequence[Listed], schema: pa.Schema) -> DataFrame:
    with TemporaryDirectory(prefix="lace-list-") as folder:
        made = Path(folder, _LIST)
        made.mkdir()
        with (made / "0").open("w", encoding="ascii") as file:
            file.write("v1")
            for uri, size, modified in files:
                file.write(
                    f'\n{{"path":"{spark_url(uri)}","size":{size},"isDir":false,'
                    f'"modificationTime":{modified},"blockReplication":1,"blockSize":{_BLOCK},'
                    '"action":"add"}'
                )
        # Read at once, and never again. Files may lie anywhere, not in this folder alone.
        reader = spark.read.schema(from_arrow_schema(schema)).option("recursiveFileLookup", True)
        return reader.parquet(f"file://{folder}")


def _read_each(spark: SparkSession, files: Sequence[Listed], schema: pa.Schema) -> DataFrame:
    paths = [_PATTERN.sub(r"\\\g<0>", spark_place(file.uri)) for file in files]
    return spark.read.schema(from_arrow_schema(schema)).parquet(*paths)


def spark_reads(spark: SparkSession, uri: str) -> bool:
    """Whether Spark itself knows the store of an address: for some it needs jars of its own."""
    scheme = scheme_of(spark_place(uri))
    if scheme in {"", "file"}:
        return True
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return True  # elsewhere: whoever runs there knows
    hadoop = context._jvm.org.apache.hadoop.fs.FileSystem  # noqa: SLF001
    try:
        hadoop.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())  # noqa: SLF001
    except Exception:  # noqa: BLE001 (there is no such class, in whatever words)
        return False
    return True


# --- by the workers -----------------------------------------------------------------------------


def _read_by_arrow(
    spark: SparkSession, uris: list[str], schema: pa.Schema, with_file: bool
) -> DataFrame:
    """Have the workers read files that Spark cannot reach; filters are not taken over."""
    extra = [pa.field("file", pa.string())] if with_file else []
    made = pa.schema([*schema, *extra])

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                uri = uris[number]
                system, path = filesystem(uri)
                with pq.ParquetFile(path, filesystem=system) as file:
                    there = [name for name in schema.names if name in file.schema_arrow.names]
                    for found in file.iter_batches(_ARROW_ROWS, columns=there):
                        yield _fitted(found, made, uri.rpartition("/")[2])

    count = len(uris)
    return spark.range(0, count, 1, count).mapInArrow(work, from_arrow_schema(made))


def _fitted(batch: pa.RecordBatch, schema: pa.Schema, file: str) -> pa.RecordBatch:
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.repeat(file, batch.num_rows)
        if field.name == "file"
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)
