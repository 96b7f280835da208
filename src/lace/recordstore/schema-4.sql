-- Version 4. What is known of a link is one value: a head that says what it depends on, and parts.
-- It only saves work, so that what older versions kept is let go.
DROP TABLE cursor;
DROP TABLE link_state;

-- Which records were forgotten, by name alone, so that exchanges can follow.
CREATE TABLE forgotten_record (
    times INTEGER NOT NULL,
    hash  TEXT NOT NULL,
    PRIMARY KEY (times, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE link_memory (
    id    INTEGER PRIMARY KEY,
    key   BLOB NOT NULL UNIQUE,
    head  BLOB NOT NULL,
    used  INTEGER NOT NULL,       -- the larger, the later
    bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE link_part (
    link INTEGER NOT NULL REFERENCES link_memory (id) ON DELETE CASCADE,
    name BLOB NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (link, name)
) STRICT, WITHOUT ROWID;
