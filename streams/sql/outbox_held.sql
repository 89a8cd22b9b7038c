-- Users whose earliest row is waiting for its next try, or dead: their later rows stay where they are.
SELECT tenant_id || '/' || user_id FROM memory_outbox WHERE attempts > 0 AND available_at > now()
UNION
SELECT tenant_id || '/' || user_id FROM outbox_dead;
