MATCH (m:Memory {generation: $generation})
WHERE m.memory_id > $after
RETURN m.memory_id AS memory_id, m.tenant_id AS tenant_id, m.user_id AS user_id, m.version AS version,
  m.content_hash AS content_hash, m.tombstone AS tombstone
ORDER BY m.memory_id
LIMIT $page
