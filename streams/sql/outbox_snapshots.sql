-- The current row of each memory, with the change that made it: what memory.updated says.
SELECT r.memory_id::text, r.record::text, h.op, h.event_id::text, h.occurred_at_ms, h.proposal_id
FROM unnest(%(tenant_ids)s::text[], %(user_ids)s::text[], %(memory_ids)s::uuid[]) AS wanted (tenant_id, user_id, memory_id)
JOIN memory_records AS r USING (tenant_id, user_id, memory_id)
JOIN memory_history AS h USING (tenant_id, user_id, memory_id, version);
