-- The vectors of the user's newest live memories, for SIMILAR_TO edges.
SELECT v.memory_id, v.revision, v.vector
FROM (
    SELECT memory_id FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status = 'active'
    ORDER BY created_at_ms DESC, memory_id LIMIT %(similar_memories)s
) AS newest
JOIN memory_vectors AS v
    ON v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.memory_id = newest.memory_id;
