-- Events of sessions that a repair asks to publish again.
SELECT event_id, tenant_id, user_id, session_id, sequence, event_type, state_from, state_to, occurred_at_ms, content_hash,
    origin_partition, origin_offset, key_id, nonce, ciphertext
FROM working_events
JOIN unnest(%(tenant_ids)s::text[], %(user_ids)s::text[], %(event_ids)s::text[]) AS wanted (tenant_id, user_id, event_id)
    USING (tenant_id, user_id, event_id);
