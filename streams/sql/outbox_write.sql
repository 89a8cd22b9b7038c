-- The effects of a proposal, to be published in this order.
INSERT INTO memory_outbox (
    event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target, payload
)
SELECT event_id, aggregate_id, %(tenant_id)s, %(user_id)s, %(shard)s, aggregate_version, event_type, 'memory', payload
FROM unnest(
    %(event_ids)s::uuid[], %(aggregate_ids)s::text[], %(versions)s::bigint[], %(event_types)s::text[], %(payloads)s::bytea[]
) WITH ORDINALITY AS given (event_id, aggregate_id, aggregate_version, event_type, payload, place)
ORDER BY place;
