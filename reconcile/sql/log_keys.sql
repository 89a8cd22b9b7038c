-- What the newest record of the memories with these ids should say.
SELECT m.memory_id::text, m.tenant_id, m.user_id, m.version, m.content_hash, m.status,
    (SELECT coalesce(string_agg(v.revision || ':' || v.digest, ',' ORDER BY v.revision COLLATE "C"), '')
     FROM memory_vectors AS v
     WHERE v.tenant_id = m.tenant_id AND v.user_id = m.user_id AND v.memory_id = m.memory_id)
FROM memories AS m
WHERE m.memory_id = ANY(%(ids)s::uuid[])
