-- Every version of one memory, oldest first; the record is null once it was erased.
SELECT version, event_id::text, op, status, content_hash, reason, actor, proposal_id, source_event_id, occurred_at_ms, record::text
FROM memory_history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s::uuid
ORDER BY version;
