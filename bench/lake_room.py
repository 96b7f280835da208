"""Wide rows of a notes room, as many as asked for, made by Spark in the form of a lake.

They have the columns that rules look at; their hashes and signatures are made up, because nothing
that is measured with them validates a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql import functions as F  # noqa: N812

from lace.crypto.keys import SigningKey
from lace.lake.rows import RECORDS_SCHEMA
from lace.lake.tables import Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

GROUP: Final = "notes-demo"
AUTHORITY: Final = SigningKey(b"a" * 32).verifier
MEMBERS: Final = 200
SIGNERS: Final = 250
GRANTS: Final = 1000


def make_room(spark: SparkSession, root: str, records: int) -> Lake:
    """Return a lake of a room: one grant in a thousand records, the rest messages and others."""
    lake = Lake.open(spark, root, create=True)
    log = lake.records_log
    if log.version().rows == records:
        return lake
    number = F.col("id")
    digest = _b64a(number)
    is_grant = number < GRANTS
    signer = F.concat(F.lit("V.signer"), (number % SIGNERS).cast("string"), F.lit(".H3"))
    member = F.concat(F.lit("V.signer"), (number % MEMBERS).cast("string"), F.lit(".H3"))
    app = F.when(is_grant, "notes/member").when(number % 10 < 7, "notes/message").otherwise("other")
    tai = F.format_string("%010d:%09d", F.lit(1_700_000_000) + number, F.lit(0))

    def field(name: str, value: Column) -> Column:
        return F.struct(F.lit(name).alias("name"), F.lit(0).alias("index"), value.alias("value"))

    tag = field("Tag", F.concat(F.lit("t"), (number % 5).cast("string")))
    rows = spark.range(records, numPartitions=max(2, records // 100_000)).select(
        F.concat(F.lit("S."), digest, F.lit(".H3")).alias("hash"),
        F.lit("S").alias("type"),
        F.lit(GROUP).alias("group"),
        app.alias("app"),
        F.concat(F.lit("m/"), number.cast("string")).alias("name"),
        tai.alias("tai"),
        F.when(is_grant, F.lit(AUTHORITY)).otherwise(signer).alias("signed_by"),
        F.concat(digest, digest).alias("signature"),
        F.lit(100).cast("long").alias("data_length"),
        F.when(is_grant, F.array(field("Member", member))).otherwise(F.array(tag)).alias("extras"),
        F.array().cast("array<struct<name:string,index:int,data:string,target:string>>")
        .alias("links"),
        F.concat(F.lit("P."), digest, F.lit(".H3")).alias("plex_hash"),
        F.concat(F.lit("B."), digest, F.lit(".H3")).alias("blob_hash"),
        F.unhex(F.sha2(number.cast("string"), 512)).alias("raw"),
        F.lit("made up").alias("bundle"),
        (number * 500).alias("offset"),
        F.lit("made up").alias("ingest"),
        F.timestamp_seconds(F.lit(1_700_000_000) + number).alias("time"),
        F.timestamp_seconds(F.lit(1_700_000_000)).alias("arrived"),
    )  # fmt: skip
    folder = f"data/{uuid4().hex}"
    rows.select(RECORDS_SCHEMA.names).write.parquet(f"{log.root}/{folder}")
    log.commit(log.files_in(folder), work="bench", step=1, expected=log.version().number, note={})
    return lake


def _b64a(number: Column) -> Column:
    """Return 43 characters that look like a digest and differ for each number."""
    made = F.base64(F.unhex(F.sha2(number.cast("string"), 256)))
    return F.substring(F.translate(made, "+/=", "_~0"), 1, 43)
