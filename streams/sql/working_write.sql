-- What inputs led to, how far their partitions are handled, and a wake-up for the relay at the commit.
WITH moved AS (
    UPDATE positions AS p SET last_offset = reached.last_offset
    FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS reached (number, last_offset)
    WHERE p.role = 'working' AND p.partition = reached.number
)
SELECT working_written(%(documents)s::json), pg_notify('engram_outbox', '');
