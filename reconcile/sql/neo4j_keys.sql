-- What Neo4j should hold of the memories with these ids.
SELECT m.memory_id::text, m.tenant_id, m.user_id, m.version, m.content_hash, m.status,
    (SELECT coalesce(json_agg(json_build_object('kind', e.kind, 'target_kind', e.target_kind, 'target_id', e.target_id,
                                                'weight', e.weight)), '[]')
     FROM memory_edges AS e
     WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id AND e.memory_id = m.memory_id)::text,
    m.relations::text
FROM memories AS m
WHERE m.memory_id = ANY(%(ids)s::uuid[])
