-- The first proposal of a partition: a row to lock, at an offset before all others.
INSERT INTO positions (role, partition, topic_identity, last_offset)
VALUES ('remember', %(partition)s, %(topic_identity)s, -1) ON CONFLICT DO NOTHING;
