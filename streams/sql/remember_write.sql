-- What proposals led to, how far their partitions are decided, and a wake-up for the relay at the commit.
WITH moved AS (
    UPDATE positions AS p SET last_offset = reached.last_offset
    FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS reached (number, last_offset)
    WHERE p.role = 'remember' AND p.partition = reached.number
)
SELECT remembered(%(documents)s::json),
    (SELECT count(pg_notify('engram_outbox', shard::text)) FROM unnest(%(shards)s::integer[]) AS changed (shard));
