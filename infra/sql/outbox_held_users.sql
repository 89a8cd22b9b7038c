-- How many users wait behind a row of theirs that is dead or has its next try ahead.
SELECT count(*) FROM (
    SELECT tenant_id, user_id FROM outbox_dead
    UNION
    SELECT tenant_id, user_id FROM memory_outbox WHERE attempts > 0 AND available_at > now()
) AS held
