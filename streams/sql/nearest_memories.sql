-- Exact nearest neighbours among one user's live memories of one revision; no index is asked.
SELECT v.memory_id::text, 1 - (v.vector <=> %(vector)s) AS similarity
FROM memory_vectors AS v
JOIN memories AS m USING (tenant_id, user_id, memory_id)
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.revision = %(revision)s AND m.status = 'active'
ORDER BY v.vector <=> %(vector)s, v.memory_id
LIMIT %(limit)s;
