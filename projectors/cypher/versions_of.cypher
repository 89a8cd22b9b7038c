UNWIND $ids AS memory_id
MATCH (m:Memory {generation: $generation, memory_id: memory_id})
RETURN m.memory_id, m.tenant_id, m.user_id, m.version, m.content_hash, m.tombstone
