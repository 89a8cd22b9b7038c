UNWIND $memory_ids AS memory_id
MATCH (m:Memory {generation: $generation, tenant_id: $tenant_id, memory_id: memory_id})
WHERE m.user_id = $user_id AND m.version > 0 AND m.tombstone = false
RETURN elementId(m) AS node_id, m.memory_id AS memory_id
