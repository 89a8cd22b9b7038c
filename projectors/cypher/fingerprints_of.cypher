UNWIND $ids AS memory_id
MATCH (m:Memory {generation: $generation, memory_id: memory_id})
RETURN m.memory_id AS memory_id, m.tenant_id AS tenant_id, m.user_id AS user_id, m.version AS version,
  m.content_hash AS content_hash, m.tombstone AS tombstone
