-- Version 7. The hashes of records that were forgotten for good, and nothing else of them: they are not stored again.
CREATE TABLE kept_out (
    hash TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
