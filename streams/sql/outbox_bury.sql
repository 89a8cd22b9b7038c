-- A row that failed too often goes where an operator finds it; it is never skipped.
WITH buried AS (
    DELETE FROM memory_outbox WHERE outbox_id = %(outbox_id)s
    RETURNING outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
        repair_header, repair_dedupe_key, payload, attempts, created_at
)
INSERT INTO outbox_dead (
    outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, repair_header,
    repair_dedupe_key, payload, attempts, last_error, created_at
)
SELECT outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, repair_header,
    repair_dedupe_key, payload, attempts + 1, %(error)s, created_at
FROM buried;
