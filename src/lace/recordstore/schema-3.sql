-- Version 3. What every record has is said once: a place has its columns, the hash has the type, the bytes have the
-- rest. Only extra headers are rows of their own.
DELETE FROM field WHERE name IN (
    SELECT id FROM name
    WHERE text IN ('Type', 'Signed-By', 'Signature', 'Group', 'App', 'Name', 'TAI', 'Data-Length')
);
