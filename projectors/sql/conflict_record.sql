-- Keeps one row per conflicting event; a redelivery raises its count.
INSERT INTO projection_conflicts AS known (
    store, generation, tenant_id, user_id, aggregate_id, version, event_hash, stored_version, stored_hash, first_at_ms,
    last_at_ms
)
VALUES (
    %(store)s, %(generation)s, %(tenant_id)s, %(user_id)s, %(aggregate_id)s, %(version)s, %(event_hash)s,
    %(stored_version)s, %(stored_hash)s, %(now_ms)s, %(now_ms)s
)
ON CONFLICT (store, generation, tenant_id, user_id, aggregate_id, version, event_hash)
DO UPDATE SET times = known.times + 1, last_at_ms = excluded.last_at_ms
