-- How a proposal ended, for whoever waits, and so that a second copy of it is known.
INSERT INTO command_outcomes (
    tenant_id, user_id, proposal_id, event_id, kind, outcome, reason, memory_ids, refused, decided_at_ms
)
VALUES (
    %(tenant_id)s, %(user_id)s, %(proposal_id)s, %(event_id)s, %(kind)s, %(outcome)s, %(reason)s, %(memory_ids)s::uuid[],
    %(refused)s, %(decided_at_ms)s
)
ON CONFLICT DO NOTHING;
