-- Version 2. What peers advertised last, by link.

-- An empty advert stands for what the record here would be advertised as.
CREATE TABLE cursor (
    link   BLOB NOT NULL,
    record TEXT NOT NULL,
    advert BLOB NOT NULL,
    PRIMARY KEY (link, record)
) STRICT, WITHOUT ROWID;
