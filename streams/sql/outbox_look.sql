-- Users whose earliest row is waiting for its next try, or dead: their later rows stay where they are. The earliest row that
-- was tried before and may be tried again. The last number that any transaction was given.
SELECT
    ARRAY(
        SELECT tenant_id || '/' || user_id FROM memory_outbox WHERE attempts > 0 AND available_at > now()
        UNION
        SELECT tenant_id || '/' || user_id FROM outbox_dead
    ),
    (SELECT min(outbox_id) FROM memory_outbox WHERE attempts > 0 AND available_at <= now()),
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM memory_outbox_outbox_id_seq);
