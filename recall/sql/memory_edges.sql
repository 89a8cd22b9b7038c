-- The outgoing edges of one memory.
SELECT kind, target_kind, target_id, weight
FROM memory_edges
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s::uuid
ORDER BY kind, target_kind, target_id
