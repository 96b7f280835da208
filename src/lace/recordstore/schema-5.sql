-- Version 5. Records whose bytes are not those that were stored: kept to be looked at, and given to nobody.
CREATE TABLE quarantine (
    hash TEXT NOT NULL PRIMARY KEY,
    raw  BLOB NOT NULL
) STRICT, WITHOUT ROWID;
