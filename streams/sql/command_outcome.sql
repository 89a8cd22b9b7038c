-- What became of one proposal of one user.
SELECT outcome, reason, memory_ids::text[], refused
FROM command_outcomes
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND proposal_id = %(proposal_id)s
