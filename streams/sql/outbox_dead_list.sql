-- Rows that wait for an operator, oldest first; never what they carry.
SELECT outbox_id, tenant_id, user_id, aggregate_id, aggregate_version, event_type, target, attempts, last_error,
    (extract(epoch FROM died_at) * 1000)::bigint
FROM outbox_dead
ORDER BY outbox_id
LIMIT %(limit)s;
