"""Queries over a lake of moderate size without Spark: DuckDB over the files that the log lists.

Files are read by pyarrow, so that a lake may be wherever one can be. DuckDB itself opens no file
and fetches no extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from lace.datalog.program import RuleProgram
from lace.lake.delta import TableVersion
from lace.lake.dialect import Kind, OnlySpark, Tables, same, translate
from lace.lake.here import HERE_ROWS, evaluate_here
from lace.lake.places import filesystem
from lace.lake.rows import PROMOTED, QUARANTINE_SCHEMA, RECORDS_SCHEMA
from lace.lake.tables import NOT_WIDE, Snapshot
from lace.projection import HASH
from lace.values import DATA
from lace.vocabulary import SELECT_HAVE

_BATCH_ROWS: Final = 1000
_FIELDS: Final = {"hash": Kind.TEXT, "name": Kind.TEXT, "index": Kind.INTEGER, "value": Kind.TEXT}
_LINKS: Final = {
    "hash": Kind.TEXT, "name": Kind.TEXT, "index": Kind.INTEGER, "data": Kind.TEXT,
    "target": Kind.TEXT,
}  # fmt: skip
_EMBEDDED: Final = {"hash": Kind.TEXT, "type": Kind.TEXT, "embedded": Kind.TEXT}
_UTC: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Views:
    """Projections that a query may name, each with the rules that select its records."""

    programs: Mapping[str, RuleProgram]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DuckAnswer:
    """What DuckDB answers: Arrow batches of this schema, made as they are taken."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def ask_duckdb(
    snapshot: Snapshot, aside: TableVersion, query: str, views: Views, memory: int
) -> DuckAnswer:
    """Answer a query of Spark as Spark does.

    Raises ``OnlySpark`` where that is not certain, and where DuckDB cannot do it: no memory, a
    number that is too large, a name that is not clear.
    """
    if views.programs and snapshot.version.rows > HERE_ROWS:
        raise OnlySpark(f"a view of more than {HERE_ROWS:,} records")
    text = translate(query, known_tables(views))
    try:
        connection = _connection(memory)
        _make_tables(connection, snapshot, aside)
        for number, (name, program) in enumerate(views.programs.items()):
            chosen = evaluate_here(snapshot, program, [SELECT_HAVE]).rows(SELECT_HAVE)
            hashes = pa.table({"hash": pa.array((row[0] for row in chosen), pa.string())})
            connection.register(f"chosen_{number}", hashes)
            connection.execute(_view(name, views.columns, f"chosen_{number}"))
        reader = connection.sql(text).to_arrow_reader(_BATCH_ROWS)
        if len(set(reader.schema.names)) < len(reader.schema.names):
            raise OnlySpark("two columns of one name")
        first = next(reader, None)
    except duckdb.Error as error:
        raise OnlySpark(_told(error)) from error
    schema = _as_spark_has_it(reader.schema)
    rest = _rest(connection, reader)
    found = chain([] if first is None else [first], rest)
    return DuckAnswer(schema, (_cast(batch, schema) for batch in found))


def known_tables(views: Views) -> Tables:
    """Return all tables that a query may name, with what their columns hold."""
    records = {field.name: _kind(field.type) for field in RECORDS_SCHEMA}
    projected = {name: Kind.BYTES if name == DATA else Kind.TEXT for name in views.columns}
    return {
        "records": records,
        "wide": {name: kind for name, kind in records.items() if name not in NOT_WIDE},
        "fields": _FIELDS,
        "links": _LINKS,
        "embedded": _EMBEDDED,
        "quarantine": {field.name: _kind(field.type) for field in QUARANTINE_SCHEMA},
        **dict.fromkeys(views.programs, projected),
    }


def _kind(type: pa.DataType) -> Kind:
    if pa.types.is_integer(type):
        return Kind.INTEGER
    if pa.types.is_timestamp(type):
        return Kind.TIME
    if pa.types.is_binary(type):
        return Kind.BYTES
    return Kind.LIST if pa.types.is_list(type) else Kind.TEXT


def _connection(memory: int) -> Any:
    return duckdb.connect(":memory:", config={
        "memory_limit": f"{memory}B",
        # What a query says must reach neither files nor the network.
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    })  # fmt: skip


def _make_tables(connection: Any, snapshot: Snapshot, aside: TableVersion) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("all_records", _files(snapshot.version, RECORDS_SCHEMA))
    connection.register("quarantine", _files(aside, QUARANTINE_SCHEMA))
    # Points in time without a zone are compared with text as Spark compares them, in UTC.
    columns = ", ".join(
        f'CAST("{field.name}" AS TIMESTAMP) AS "{field.name}"'
        if pa.types.is_timestamp(field.type)
        else f'"{field.name}"'
        for field in RECORDS_SCHEMA
    )
    narrow = ", ".join(f'"{name}"' for name in RECORDS_SCHEMA.names if name not in NOT_WIDE)
    fields = [
        f"SELECT hash, '{name}' AS name, CAST(0 AS INTEGER) AS index, "
        f'CAST("{column}" AS VARCHAR) AS value FROM records WHERE "{column}" IS NOT NULL'
        for name, column in PROMOTED.items()
    ]
    fields.append(
        "SELECT hash, e.name, e.index, e.value FROM (SELECT hash, unnest(extras) AS e FROM records)"
    )
    for name, text in {
        "records": f"SELECT {columns} FROM all_records",
        "wide": f"SELECT {narrow} FROM records",
        "fields": " UNION ALL ".join(fields),
        "links": "SELECT hash, e.name, e.index, e.data, e.target FROM "
        "(SELECT hash, unnest(links) AS e FROM records)",
        "embedded": "SELECT * FROM (SELECT hash, type, CASE type WHEN 'S' THEN plex_hash "
        "WHEN 'P' THEN blob_hash END AS embedded FROM records) WHERE embedded IS NOT NULL",
    }.items():
        connection.execute(f"CREATE VIEW {name} AS {text}")


def _files(version: TableVersion, schema: pa.Schema) -> Any:
    """Return the rows of files, with exactly the columns of a schema."""
    uris = version.uris()
    if not uris:
        return schema.empty_table()
    system, _ = filesystem(version.root)
    paths = [filesystem(uri)[1] for uri in uris]
    return ds.dataset(paths, schema=schema, format="parquet", filesystem=system)


def _view(name: str, columns: Sequence[str], chosen: str) -> str:
    made = ", ".join(f"{_projected(column)} AS {_quoted(column)}" for column in columns)
    return (
        f"CREATE VIEW {_quoted(name)} AS SELECT {made} FROM records "
        f"WHERE hash IN (SELECT hash FROM {chosen})"
    )


def _projected(name: str) -> str:
    if name == HASH:
        return "hash"
    if name == DATA:
        end = "octet_length(raw)"
        return f"array_slice(raw, {end} - data_length + 1, {end})"
    if name in PROMOTED:
        return f'CAST("{PROMOTED[name]}" AS VARCHAR)'
    text = "'" + name.replace("'", "''") + "'"
    return f"list_filter(extras, lambda x: x.name = {text} AND x.index = 0)[1].value"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_spark_has_it(schema: pa.Schema) -> pa.Schema:
    return pa.schema([
        pa.field(field.name, _UTC if pa.types.is_timestamp(field.type) else field.type)
        for field in schema
    ])  # fmt: skip


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column.cast(pa.timestamp("us")).cast(_UTC) if field.type == _UTC else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rest(connection: Any, reader: Any) -> Iterator[pa.RecordBatch]:
    """Yield the other batches; the connection lives as long as they are wanted."""
    try:
        yield from reader
    except duckdb.Error as error:
        raise same(_told(error)) from error
    finally:
        connection.close()


def _told(error: Exception) -> str:
    """Return the first line of what DuckDB says."""
    return str(error).partition("\n")[0]
