-- The vectors of every live revision of these memories.
SELECT v.memory_id::text, v.revision, v.vector
FROM unnest(%(tenant_ids)s::text[], %(user_ids)s::text[], %(memory_ids)s::uuid[]) AS wanted (tenant_id, user_id, memory_id)
JOIN memory_vectors AS v USING (tenant_id, user_id, memory_id)
ORDER BY v.memory_id, v.revision;
