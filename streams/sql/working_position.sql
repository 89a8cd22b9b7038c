-- Takes the partition's position row, and with it the right to write: an offset that was handled already returns no row.
INSERT INTO positions (role, partition, topic_identity, last_offset)
VALUES ('working', %(partition)s, %(topic_identity)s, %(offset)s)
ON CONFLICT (role, partition) DO UPDATE SET last_offset = EXCLUDED.last_offset
WHERE positions.last_offset < EXCLUDED.last_offset AND positions.topic_identity = EXCLUDED.topic_identity
RETURNING last_offset;
