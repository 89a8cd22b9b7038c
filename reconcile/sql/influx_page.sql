-- What InfluxDB should hold of every event after a key; the order is that of the bytes, as everywhere outside Postgres.
SELECT tenant_id, user_id, session_id, sequence, occurred_at_ms, event_id, content_hash
FROM working_events
WHERE (tenant_id COLLATE "C", user_id COLLATE "C", session_id COLLATE "C", sequence)
    > (%(tenant_id)s, %(user_id)s, %(session_id)s, %(sequence)s)
ORDER BY tenant_id COLLATE "C", user_id COLLATE "C", session_id COLLATE "C", sequence
LIMIT %(rows)s
