-- Every version of one memory, oldest first; the record of an erased one is null.
SELECT version, op, status, reason, actor, source_event_id, occurred_at_ms, record ->> 'content', content_hash
FROM memory_history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s::uuid
ORDER BY version
