-- Give dead rows another set of tries, at their old place in the order.
WITH raised AS (
    DELETE FROM outbox_dead WHERE outbox_id = ANY(%(outbox_ids)s::bigint[])
    RETURNING outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
        repair_header, repair_dedupe_key, payload, last_error, created_at
)
INSERT INTO memory_outbox (
    outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, repair_header,
    repair_dedupe_key, payload, attempts, last_error, created_at
)
OVERRIDING SYSTEM VALUE
SELECT outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, repair_header,
    repair_dedupe_key, payload, 1, last_error, created_at
FROM raised
RETURNING outbox_id;
