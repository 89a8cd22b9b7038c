-- A page of one user's memories, newest statement first.
SELECT memory_id::text, tenant_id, user_id, subject, category, type, attribute, value::text, content, importance, confidence,
    source, status, version, stated_at_ms, valid_from_ms, valid_to_ms, expires_at_ms, tags
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
    AND (%(statuses)s::text[] IS NULL OR status = ANY(%(statuses)s::text[]))
    AND (%(categories)s::text[] IS NULL OR category = ANY(%(categories)s::text[]))
ORDER BY stated_at_ms DESC, memory_id
LIMIT %(limit)s
