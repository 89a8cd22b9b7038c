-- The session's new state with the ids of its last events.
INSERT INTO working_memory (tenant_id, user_id, session_id, state, sequence, last_event_ids, fields, updated_at_ms)
VALUES (%(tenant_id)s, %(user_id)s, %(session_id)s, %(state)s, %(sequence)s, %(last_event_ids)s, %(fields)s::jsonb,
        %(updated_at_ms)s)
ON CONFLICT (tenant_id, user_id, session_id) DO UPDATE
SET state = EXCLUDED.state, sequence = EXCLUDED.sequence, last_event_ids = EXCLUDED.last_event_ids,
    fields = EXCLUDED.fields, updated_at_ms = EXCLUDED.updated_at_ms;
