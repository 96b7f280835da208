-- Version 3. What every record has is said once: a place has its columns, the hash has the type, the bytes have the
-- rest. Only extra headers are rows of their own.
DELETE FROM field WHERE name IN (
    SELECT id FROM name
    WHERE text IN ('Type', 'Signed-By', 'Signature', 'Group', 'App', 'Name', 'TAI', 'Data-Length')
);

-- Digests are computed as quickly as they are read.
DROP TABLE digest;
DROP TABLE context;

-- What is remembered of each link: the mark of its last fixed point, and what the peer advertised then. An empty
-- advert stands for what the record here would be advertised as. It can all be had again, and has a limit.
CREATE TABLE link_state (
    id    INTEGER PRIMARY KEY,
    key   BLOB NOT NULL UNIQUE,
    mark  BLOB,
    bytes INTEGER NOT NULL DEFAULT 0,  -- of the cursor
    used  INTEGER NOT NULL             -- larger is later
) STRICT;
DROP TABLE cursor;
CREATE TABLE cursor (
    link   INTEGER NOT NULL REFERENCES link_state (id),
    record TEXT NOT NULL,
    advert BLOB NOT NULL,
    PRIMARY KEY (link, record)
) STRICT, WITHOUT ROWID;
