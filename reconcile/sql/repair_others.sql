-- Ask for the truth again where no memory's row is concerned: events of sessions, which never change, and orphans.
INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
                           repair_header, repair_dedupe_key)
SELECT gen_random_uuid(), aggregate_id, tenant_id, user_id, shard, version, %(event_type)s, %(target)s, header::json, dedupe_key
FROM unnest(%(aggregate_ids)s::text[], %(tenant_ids)s::text[], %(user_ids)s::text[], %(shards)s::integer[],
            %(versions)s::integer[], %(headers)s::text[], %(dedupe_keys)s::text[])
    AS row (aggregate_id, tenant_id, user_id, shard, version, header, dedupe_key)
ON CONFLICT (tenant_id, repair_dedupe_key) WHERE repair_dedupe_key IS NOT NULL DO NOTHING
