-- The session as it stands; read after the position row was taken, so nobody else is changing it.
SELECT state, sequence, last_event_ids, fields FROM working_memory
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND session_id = %(session_id)s;
