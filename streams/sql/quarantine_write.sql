-- New entries of the queue, and new states of known ones.
INSERT INTO quarantine (tenant_id, user_id, entry_id, gate, rule_id, gate_version, outcome, side, excerpt, source_event_id, created_at_ms, state, key_id)
SELECT %(tenant_id)s, %(user_id)s, entry_id, gate, rule_id, gate_version, outcome, side, excerpt, source_event_id, created_at_ms, state, key_id
FROM json_populate_recordset(NULL::quarantine, %(entries)s::json)
ON CONFLICT (tenant_id, user_id, entry_id) DO UPDATE SET state = excluded.state;
