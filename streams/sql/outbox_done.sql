-- Published and acknowledged: the log is the archive.
DELETE FROM memory_outbox WHERE outbox_id = ANY(%(outbox_ids)s::text::bigint[]);
