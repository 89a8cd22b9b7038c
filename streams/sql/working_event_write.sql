-- The event and its outbox row together: what is recorded is published.
WITH recorded AS (
    INSERT INTO working_events (tenant_id, user_id, session_id, sequence, event_id, event_type, state_from, state_to,
                                occurred_at_ms, content_hash, origin_partition, origin_offset, key_id, nonce, ciphertext)
    VALUES (%(tenant_id)s, %(user_id)s, %(session_id)s, %(sequence)s, %(event_id)s, %(event_type)s, %(state_from)s,
            %(state_to)s, %(occurred_at_ms)s, %(content_hash)s, %(origin_partition)s, %(origin_offset)s, %(key_id)s,
            %(nonce)s, %(ciphertext)s)
)
INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
                           payload)
VALUES (%(event_id)s::uuid, %(event_id)s, %(tenant_id)s, %(user_id)s, %(origin_partition)s, %(sequence)s,
        %(event_type)s, 'working', %(payload)s);
