-- Version 6. How much was taken from whom, by day, for the quotas of a server. Day -1 stands for all days before.
CREATE TABLE taken (
    who     TEXT NOT NULL,
    day     INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    records INTEGER NOT NULL,
    PRIMARY KEY (who, day)
) STRICT, WITHOUT ROWID;
