-- What waits for a confirmation, newest first.
SELECT entry_id::text, content, confidence, reason, created_at_ms, expires_at_ms, state
FROM pending
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND (%(state)s = '' OR state = %(state)s)
ORDER BY created_at_ms DESC, entry_id
LIMIT %(limit)s
