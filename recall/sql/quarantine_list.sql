-- What was refused and kept for review, newest first; only masked excerpts stand here.
SELECT entry_id::text, gate, rule_id, outcome, side, excerpt, created_at_ms, state
FROM quarantine
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND (%(state)s = '' OR state = %(state)s)
ORDER BY created_at_ms DESC, entry_id
LIMIT %(limit)s
