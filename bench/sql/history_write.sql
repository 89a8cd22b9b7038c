-- Keep every version whole.
INSERT INTO memory_history (
    tenant_id, user_id, memory_id, version, event_id, op, status, content_hash, reason, actor, proposal_id, source_event_id,
    occurred_at_ms, record
)
SELECT
    tenant_id, user_id, memory_id, version, event_id, op, status, content_hash, reason, actor, proposal_id, source_event_id,
    occurred_at_ms, record
FROM json_populate_recordset(NULL::memory_history, %(history)s::json);
