-- The current row of each memory, the change that made it, and its vectors, one line for each of these: what memory.updated
-- says. One statement sees one state of the database, so they belong together. Ids have no commas.
SELECT r.memory_id::text, r.record::text, h.op, h.event_id::text, h.occurred_at_ms, h.proposal_id, v.revision, v.vector
FROM unnest(
    string_to_array(%(tenant_ids)s, ','), string_to_array(%(user_ids)s, ','), string_to_array(%(memory_ids)s, ',')::uuid[]
) AS wanted (tenant_id, user_id, memory_id)
JOIN memory_records AS r USING (tenant_id, user_id, memory_id)
JOIN memory_history AS h USING (tenant_id, user_id, memory_id, version)
LEFT JOIN memory_vectors AS v USING (tenant_id, user_id, memory_id);
