-- Fence: whoever holds these rows is the only writer of their partitions until the transaction ends.
SELECT locked_partition, known_identity, known_offset
FROM positions_locked(%(role)s, %(partitions)s::integer[], %(topic_identity)s);
