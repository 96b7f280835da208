-- Version 2. What is remembered for the next exchange: it can be computed again.

-- What peers advertised last, by link. An empty advert stands for what the record here would be advertised as.
CREATE TABLE cursor (
    link   BLOB NOT NULL,
    record TEXT NOT NULL,
    advert BLOB NOT NULL,
    PRIMARY KEY (link, record)
) STRICT, WITHOUT ROWID;

-- Digests of advertisements: the same record has one for each source and schema.
CREATE TABLE context (
    id  INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE
) STRICT;

CREATE TABLE digest (
    context INTEGER NOT NULL REFERENCES context (id),
    record  INTEGER NOT NULL REFERENCES record (id),
    digest  BLOB NOT NULL,
    PRIMARY KEY (context, record)
) STRICT, WITHOUT ROWID;

-- How often records were forgotten, so that a running exchange notices.
CREATE TABLE forgotten (
    times INTEGER NOT NULL
) STRICT;
INSERT INTO forgotten (times) VALUES (0);
