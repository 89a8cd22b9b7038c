-- Give dead rows another set of tries, at their old place in the order. A repair that was asked for again in the meantime is
-- on its way already.
WITH raised AS (
    DELETE FROM outbox_dead WHERE %(all)s OR outbox_id = ANY(%(outbox_ids)s::bigint[])
    RETURNING outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
        repair_header, repair_dedupe_key, payload, last_error, created_at
), requeued AS (
    INSERT INTO memory_outbox (
        outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, repair_header,
        repair_dedupe_key, payload, attempts, last_error, created_at
    )
    OVERRIDING SYSTEM VALUE
    SELECT outbox_id, event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
        repair_header, repair_dedupe_key, payload, 1, last_error, created_at
    FROM raised
    ON CONFLICT (tenant_id, repair_dedupe_key) WHERE repair_dedupe_key IS NOT NULL DO NOTHING
)
SELECT outbox_id FROM raised;
