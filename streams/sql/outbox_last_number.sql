-- The last number that any transaction was given.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM memory_outbox_outbox_id_seq;
