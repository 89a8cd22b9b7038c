-- What became of one proposal of one user.
SELECT event_id, kind, outcome, reason, memory_ids::text[], refused, decided_at_ms
FROM command_outcomes
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND proposal_id = %(proposal_id)s
