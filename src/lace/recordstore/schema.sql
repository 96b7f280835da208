-- Version 1. One file, one writer at a time, any number of readers.

-- Ids increase and are never used again, also not after a record was forgotten.
CREATE TABLE record (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    hash  TEXT NOT NULL UNIQUE,
    raw   BLOB NOT NULL,
    inner TEXT             -- the embedded hash: of the Blob for a Plex, of the Plex for a Seal
) STRICT;

-- Field names are few and long; records and values are many.
CREATE TABLE name (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE field (
    record   INTEGER NOT NULL REFERENCES record (id),
    name     INTEGER NOT NULL REFERENCES name (id),
    position INTEGER NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (record, name, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX field_by_value ON field (name, value, record);

CREATE TABLE link (
    record   INTEGER NOT NULL REFERENCES record (id),
    name     INTEGER NOT NULL REFERENCES name (id),
    position INTEGER NOT NULL,
    data     TEXT NOT NULL,
    target   TEXT NOT NULL,
    PRIMARY KEY (record, name, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_by_target ON link (target);

-- Versions at a place, ready in the order of the raw tip.
CREATE TABLE place (
    "group"   TEXT NOT NULL,
    app       TEXT NOT NULL,
    name      TEXT NOT NULL,
    tai       TEXT NOT NULL,
    hash      TEXT NOT NULL,
    signed_by TEXT,
    PRIMARY KEY ("group", app, name, tai, hash)
) STRICT, WITHOUT ROWID;
