-- How many of these rows are still there.
SELECT count(*) FROM memory_outbox WHERE outbox_id = ANY(%(ids)s::bigint[])
