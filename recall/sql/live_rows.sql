-- The rows as they are now, of one user: what may be shown is decided by these, not by what a store answered.
SELECT memory_id::text, tenant_id, user_id, subject, category, type, attribute, value::text, content, importance, confidence,
    source, status, version, stated_at_ms, valid_from_ms, valid_to_ms, expires_at_ms, tags
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(ids)s::uuid[])
