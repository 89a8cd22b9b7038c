-- What Milvus should hold of the memories with these ids.
SELECT m.memory_id::text, m.tenant_id, m.user_id, m.version, m.content_hash, m.status, coalesce(v.digest, '')
FROM memories AS m
LEFT JOIN memory_vectors AS v
    ON v.tenant_id = m.tenant_id AND v.user_id = m.user_id AND v.memory_id = m.memory_id AND v.revision = %(revision)s
WHERE m.memory_id = ANY(%(ids)s::uuid[])
