"""Queries over a lake: whatever DuckDB answers, Spark answers with the same rows, names and types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from rooms import PREFIX, room_records

from lace.errors import Code, LakeError
from lace.lake.delta import DATA
from lace.lake.dialect import Kind, OnlySpark, Tables, translate
from lace.lake.duck import Views, ask_duckdb, known_tables
from lace.lake.peer import LakeStore
from lace.lake.query import Answer, Engine, Question, ask
from lace.lake.rows import QUARANTINE_SCHEMA
from lace.lake.tables import Lake
from lace.lake.writing import ASIDE, new_file
from lace.projection import Projection
from lace.selectors import selector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = 512 << 20
RECORDS = room_records(40, seed=5)
COLUMNS = ("Hash", "Name", "TAI", "Tag", "Signed-By", "Data-Length", "Data")
NO_VIEWS = Views({}, ())


def _never() -> Any:
    raise AssertionError("Spark was started")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake.open(None, str(tmp_path_factory.mktemp("lake") / "x.lake"), create=True)
    store = LakeStore(made, label="a.records")
    store.save(RECORDS[:20])
    store.save(RECORDS[20:])
    rows = [
        {"digest": f"d{n}", "code": "record.malformed", "detail": None, "bundle": "b.records",
         "offset": n, "length": 3, "raw": b"\x00\xff%d" % n, "ingest": "i"}
        for n in range(3)
    ]  # fmt: skip
    log = made.quarantine_log
    Path(log.root, DATA).mkdir()
    file = new_file(f"{log.root}/{DATA}", ASIDE)
    file.add(pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA))
    log.replace([], [w.published() for w in file.close()], expected=0, note={}, changes_data=True)
    return made


ASKED = (
    "SELECT * FROM records",
    "SELECT * FROM wide ORDER BY hash DESC LIMIT 7 OFFSET 2",
    "SELECT * FROM fields",
    "SELECT * FROM links",
    "SELECT * FROM embedded",
    "SELECT * FROM quarantine",
    "SELECT code, bundle, offset FROM quarantine",
    "SELECT count(*) FROM records",
    "SELECT Type, COUNT(DISTINCT App), sum(data_length), min(tai), max(time), avg(data_length) FROM wide GROUP BY type",
    "SELECT group, app, count(*) AS n FROM wide GROUP BY group, app HAVING n > 1 ORDER BY n DESC, app",
    "SELECT app, name FROM wide ORDER BY app, name",
    "SELECT app, name FROM wide ORDER BY app DESC, name NULLS LAST",
    "SELECT value AS tag, count(*) AS n FROM fields WHERE name = 'Tag' GROUP BY 1 ORDER BY 2 DESC, 1",
    "SELECT w.name, l.target FROM wide w JOIN links l ON w.hash = l.hash",
    "SELECT w.name, l.target FROM wide AS w LEFT JOIN links AS l USING (hash)",
    "SELECT w.* FROM wide w LEFT SEMI JOIN links l ON w.hash = l.target",
    "SELECT hash FROM wide LEFT ANTI JOIN links USING (hash)",
    "SELECT hash FROM wide w WHERE EXISTS (SELECT 1 FROM links l WHERE l.target = w.hash)",
    'SELECT hash FROM wide WHERE hash NOT IN (SELECT target FROM links) AND type <> "B"',
    "WITH a AS (SELECT app, count(*) AS n FROM wide GROUP BY app), b AS (SELECT app AS c, n + 1 AS m FROM a) SELECT c, m, m * 2 - 1 AS k FROM b WHERE NOT m BETWEEN 2 AND 3",
    "SELECT DISTINCT substring(tai, 1, 10) AS s, length(tai) AS l, type || ':' || app AS t FROM wide",
    "SELECT sum(CASE WHEN type = 'S' THEN 1 ELSE 0 END) AS s, sum(length(app)) AS l, count(tai) AS t FROM wide",
    "SELECT CASE type WHEN 'S' THEN app WHEN 'P' THEN name END AS x, if(app IS NULL, 'none', app) AS y, coalesce(app, name, '?') AS z FROM wide",
    "SELECT cast(time AS date) AS d, date(time) AS e, date_trunc('hour', time) AS h, count(*) AS n FROM wide GROUP BY d, e, h",
    "SELECT name, time FROM wide WHERE time >= '2023-11-14 22:13:20' AND time < '2030-01-01' AND app LIKE 'notes/m%'",
    "SELECT app <=> NULL AS a, app = NULL AS b, data_length IN (1, 2, 3) AS c, -data_length AS d, true AS e FROM wide",
    "SELECT a.app, b.n FROM wide a, (SELECT app AS x, count(*) AS n FROM wide GROUP BY app) b WHERE a.app = b.x",
    "SELECT q.offset + 1 AS o, f.index FROM quarantine q CROSS JOIN fields f WHERE f.index > 0",
    'SELECT 1 AS one, 3000000000 AS many, "its" AS text',
    "SELECT * FROM wide WHERE false",
    "SELECT * FROM notes",
    "SELECT Tag, count(*) AS n, sum(length(`Signed-By`)) AS s FROM notes GROUP BY Tag ORDER BY n DESC, tag",
)  # fmt: skip


def _by_duckdb(lake: Lake, query: str) -> tuple[pa.Schema, list[dict[str, Any]]]:
    snapshot = lake.snapshot()
    views = Views({"notes": selector(PREFIX).program}, COLUMNS)
    found = ask_duckdb(snapshot, lake.put_aside(), query, views, MEMORY)
    return found.schema, [row for batch in found.batches for row in batch.to_pylist()]


def _ask(lake: Lake, query: str, engine: Engine, start: Any) -> Answer:
    views = (("notes", selector(PREFIX).program),) if "notes" in query else ()
    question = Question(query=query, views=views, columns=COLUMNS)
    return ask(lake, question, start, engine=engine, memory=MEMORY)


def _bag(rows: Iterator[dict[str, Any]]) -> Counter[str]:
    return Counter(repr([(k, bytes(v) if isinstance(v, bytearray) else v) for k, v in row.items()])
                   for row in map(_plain, rows))  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return bytes(value) if isinstance(value, bytearray) else value


def _types(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return names and types; whether nulls can be is told by neither engine in the same way."""
    return [
        (f.name, str(f.type).replace("l: ", "element: ").replace(" not null", "")) for f in schema
    ]


def _both(lake: Lake, spark: SparkSession, query: str) -> None:
    here = _ask(lake, query, Engine.DUCKDB, _never)
    there = _ask(lake, query, Engine.SPARK, lambda: spark)
    assert here.columns == there.columns, query
    rows, others = list(here.rows), list(there.rows)
    assert _bag(iter(rows)) == _bag(iter(others)), query
    schema = _by_duckdb(lake, query)[0]
    assert _types(schema) == _types(to_arrow_schema(spark.sql(query).schema, timezone="UTC")), query
    if "ORDER BY hash" in query:
        assert rows == [_plain(row) for row in others], query


@pytest.mark.long
def test_both_engines_give_the_same_rows_names_and_types(spark: SparkSession, lake: Lake) -> None:
    for query in ASKED:
        _both(lake, spark, query)


def test_the_answer_without_spark_is_what_the_records_say(lake: Lake) -> None:
    answer = _ask(lake, "SELECT * FROM notes", Engine.AUTO, _never)
    chosen = {row["Hash"] for row in answer.rows}
    rows = list(_ask(lake, "SELECT * FROM notes", Engine.AUTO, _never).rows)
    expected = Projection.of((r for r in RECORDS if r.hash in chosen), COLUMNS)
    assert 0 < len(chosen) < len(RECORDS)
    assert sorted(map(repr, rows)) == sorted(map(repr, map(dict, expected)))
    (count,) = _ask(lake, "SELECT count(*) AS n FROM records", Engine.AUTO, _never).rows
    assert count == {"n": len({record.hash for record in RECORDS})}


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT upper(app) AS x FROM wide", "UPPER"),
        ("SELECT app FROM wide UNION SELECT name FROM wide", "one SELECT"),
        ("SELECT 1 AS x; SELECT 2 AS x", "one SELECT"),
        ("DROP VIEW records", "one SELECT"),
        ("SELECT extras[0].name AS x FROM records", "DOT"),
        ("SELECT data_length / 2 AS x FROM wide", "DIV"),
        ("SELECT app, rank() OVER (ORDER BY app) AS x FROM wide", "WINDOW"),
        ("SELECT length(app) FROM wide", "give it one with AS"),
        ("SELECT app AS hash FROM wide", "the name 'hash' of a column"),
        ("SELECT app AS a FROM wide WHERE a = 'x'", "the name 'a' in this place"),
        ("SELECT app AS a, a AS b FROM wide", "the name 'a' in this place"),
        ("SELECT tai > 5 AS x FROM wide", "integers and text together"),
        ("SELECT coalesce(tai, 0) AS x FROM wide", "integers and text together"),
        ("SELECT hash FROM wide WHERE time > '2024'", "a time that is not written"),
        ("SELECT hash FROM wide WHERE time > '2024-01-01T00:00:00+02:00'", "a time that is not"),
        ("SELECT 'a\\tb' AS x", "a backslash"),
        ("SELECT app FROM wide WHERE app LIKE name", "LIKE"),
        ("SELECT max(raw) AS x FROM records", "min and max: bytes"),
        ("SELECT 1.5 AS x", "the number '1.5'"),
        ("SELECT 99999999999999999999 AS x", "the number"),
        ("SELECT NULL AS x", "nulls"),
        ("SELECT a.hash, b.hash FROM wide a JOIN wide b ON a.hash = b.hash", "two columns of one"),
        ("SELECT * FROM wide JOIN links USING (hash)", "USING with *"),
        ("SELECT * EXCEPT (raw) FROM records", "STAR with"),
        ("SELECT app FROM wide TABLESAMPLE (10 PERCENT)", "with"),
        ("SELECT substring(app, 0, 2) AS x FROM wide", "substring"),
        ("SELECT substring(app, -2) AS x FROM wide", "substring"),
        ("SELECT app FROM wide LIMIT 1 + 1", "LIMIT"),
        ("SELECT app FROM wide ORDER BY 3", "a number of a column"),
        ("SELECT (SELECT count(*) AS n FROM wide) AS x", "SUBQUERY"),
        ("SELECT data_length * 9223372036854775807 AS x FROM wide WHERE data_length > 1", "Out of Range"),
        ("SELECT w.nothing FROM wide w", "in this place"),
        ("SELECT w.target FROM wide w, links l", "Binder"),
        ("SELECT", "nothing"),
        ("SELECT * FROM parquet.`/etc/passwd`", "TABLE with"),
        ("SELECT * FROM read_csv('/etc/passwd')", ""),
        ("SELECT " + " + ".join(["1"] * 5000) + " AS x", "parts"),
        ("SELECT " + "(" * 900 + "1" + ")" * 900 + " AS x", ""),
        ("SELECT '" + "x" * 70_000 + "' AS x", "characters"),
        ("not a query", ""),
    ],
)  # fmt: skip
def test_what_may_mean_something_else_is_left_to_spark(lake: Lake, query: str, what: str) -> None:
    with pytest.raises(OnlySpark) as caught:
        ask_duckdb(lake.snapshot(), lake.put_aside(), query, NO_VIEWS, MEMORY)
    assert what in str(caught.value)
    with pytest.raises(LakeError) as refused:
        _ask(lake, query, Engine.DUCKDB, _never)
    assert (refused.value.code, "Spark answers" in refused.value.hint) == (Code.LAKE_SETTING, True)
    with pytest.raises(AssertionError, match="Spark was started"):
        _ask(lake, query, Engine.AUTO, _never)


@pytest.mark.parametrize(
    "query",
    ["SELECT nothing FROM wide", "SELECT app FROM nowhere", "SELECT app FROM wide WHERE nothing"],
)
def test_names_that_are_not_there_are_told_by_both(
    spark: SparkSession, lake: Lake, query: str
) -> None:
    for engine, start in ((Engine.AUTO, _never), (Engine.SPARK, lambda: spark)):
        with pytest.raises(LakeError, match=r"^query: ") as caught:
            _ask(lake, query, engine, start)
        assert caught.value.code is Code.LAKE_JOB
        assert "no" in caught.value.message.lower()


def test_an_empty_lake_has_all_tables(tmp_path: Path) -> None:
    empty = Lake.open(None, str(tmp_path / "x.lake"), create=True)
    for table in known_tables(NO_VIEWS):
        question = Question(query=f"SELECT * FROM {table}")
        answer = ask(empty, question, _never, memory=MEMORY)
        assert (list(answer.rows), len(answer.columns) > 2) == ([], True)


def test_an_older_version_is_asked(lake: Lake) -> None:
    counts = []
    for version in range(3):
        question = Question(query="SELECT count(*) AS n FROM records", version=version)
        counts += [row["n"] for row in ask(lake, question, _never, memory=MEMORY).rows]
    assert counts == [0, 20, len({record.hash for record in RECORDS})]


# --- any query ---

TABLES: Tables = {"wide": {"app": Kind.TEXT, "name": Kind.TEXT, "tai": Kind.TEXT, "data_length": Kind.INTEGER, "time": Kind.TIME}}  # fmt: skip

_text = st.sampled_from(
    ["app", "name", "tai", "'notes'", "''", "NULL", "substring(tai, 2, 3)", "name || app"]
)
_number = st.sampled_from(
    ["data_length", "0", "7", "length(app)", "data_length + 1", "-data_length"]
)
_moment = st.sampled_from(["time", "date_trunc('day', time)", "'2023-11-14 22:13:20.000001'"])
_compare = st.sampled_from(["=", "<>", "<", ">=", "<=>"])


def _pair(operand: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda a, o, b: f"{a} {o} {b}", operand, _compare, operand)


_condition = st.recursive(
    st.one_of(
        _pair(_text), _pair(_number), _pair(_moment),
        _text.map(lambda t: f"{t} IS NULL"),
        _text.map(lambda t: f"{t} LIKE 'n_t%'"),
        st.builds(lambda t, u: f"{t} IN ('notes', {u})", _text, _text),
        _number.map(lambda n: f"{n} BETWEEN 1 AND 40"),
    ),
    lambda inner: st.one_of(
        st.builds(lambda a, o, b: f"({a} {o} {b})", inner, st.sampled_from(["AND", "OR"]), inner),
        inner.map(lambda a: f"NOT ({a})"),
    ),
    max_leaves=4,
)  # fmt: skip
_value = st.one_of(
    _text, _number, _condition,
    st.builds(lambda c, a, b: f"CASE WHEN {c} THEN {a} ELSE {b} END", _condition, _text, _text),
    st.builds(lambda a, b: f"coalesce({a}, {b})", _text, _text),
)  # fmt: skip
_plain_query = st.builds(
    lambda v, w, c: f"SELECT {v} AS x, {w} AS y FROM wide WHERE {c}", _value, _value, _condition
)
_grouped = st.builds(
    lambda k, n, c, o: (
        f"SELECT {k} AS k, count(*) AS n, sum({n}) AS s, min({n}) AS l, count(DISTINCT {k}) AS d "
        f"FROM wide WHERE {c} GROUP BY k ORDER BY k {o}"
    ),
    st.sampled_from(["app", "substring(tai, 1, 12)", "length(name)", "type"]),
    _number, _condition, st.sampled_from(["", "DESC", "NULLS LAST"]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.one_of(_plain_query, _grouped))
def test_any_query_that_duckdb_answers_spark_answers_alike(
    spark: SparkSession, lake: Lake, query: str
) -> None:
    try:
        translate(query, known_tables(NO_VIEWS))
    except OnlySpark:
        return
    _both(lake, spark, query)
