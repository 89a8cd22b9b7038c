-- One row of the catalogue of the log; an input that was sent twice returns no row.
INSERT INTO chat_history (tenant_id, user_id, event_id, kind, session_id, conversation_id, channel, user_message,
                          assistant_message, stated_at_ms, received_at_ms, origin_partition, origin_offset, detail)
VALUES (%(tenant_id)s, %(user_id)s, %(event_id)s, %(kind)s, %(session_id)s, %(conversation_id)s, %(channel)s,
        %(user_message)s, %(assistant_message)s, %(stated_at_ms)s, %(received_at_ms)s, %(origin_partition)s,
        %(origin_offset)s, %(detail)s::jsonb)
ON CONFLICT (tenant_id, user_id, event_id) DO NOTHING
RETURNING event_id;
