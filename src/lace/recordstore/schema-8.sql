-- Version 8. An extra field has one row, in the order in which fields are looked for: by name and value. So has a link,
-- by target. What a given record has is read from its bytes, as all its other fields are.
CREATE TABLE field_once (
    name     INTEGER NOT NULL,
    value    TEXT NOT NULL,
    record   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (name, value, record, position)
) STRICT, WITHOUT ROWID;
INSERT INTO field_once SELECT name, value, record, position FROM field ORDER BY name, value, record, position;
DROP TABLE field;
ALTER TABLE field_once RENAME TO field;

CREATE TABLE link_once (
    target   TEXT NOT NULL,
    record   INTEGER NOT NULL,
    name     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    data     TEXT NOT NULL,
    PRIMARY KEY (target, record, name, position)
) STRICT, WITHOUT ROWID;
INSERT INTO link_once SELECT target, record, name, position, data FROM link ORDER BY target, record, name, position;
DROP TABLE link;
ALTER TABLE link_once RENAME TO link;

-- A part says by its number alone to which link it belongs. What is known of links only saves work, and is let go.
DROP TABLE link_part;
DELETE FROM link_memory;
CREATE TABLE link_part (
    link INTEGER NOT NULL,
    name BLOB NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (link, name)
) STRICT, WITHOUT ROWID;
-- A process of an earlier version that still has the file open deletes a link alone, and uses its number again.
CREATE TRIGGER link_parts_go AFTER DELETE ON link_memory BEGIN
    DELETE FROM link_part WHERE link = old.id;
END;
