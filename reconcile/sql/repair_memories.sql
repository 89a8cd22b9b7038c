-- Ask for the truth of these memories again, under their row locks, taken in id order; what changed meanwhile publishes itself.
WITH wanted AS (
    SELECT *
    FROM unnest(%(aggregate_ids)s::uuid[], %(tenant_ids)s::text[], %(user_ids)s::text[], %(shards)s::integer[],
                %(versions)s::integer[], %(headers)s::text[], %(dedupe_keys)s::text[])
        AS row (memory_id, tenant_id, user_id, shard, version, header, dedupe_key)
), locked AS (
    SELECT w.*
    FROM memories AS m
    JOIN wanted AS w USING (tenant_id, user_id, memory_id, version)
    ORDER BY m.memory_id
    FOR UPDATE OF m
)
INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
                           repair_header, repair_dedupe_key)
SELECT gen_random_uuid(), memory_id::text, tenant_id, user_id, shard, version, %(event_type)s, 'memory', header::json, dedupe_key
FROM locked
ORDER BY memory_id
ON CONFLICT (tenant_id, repair_dedupe_key) WHERE repair_dedupe_key IS NOT NULL DO NOTHING
