// Nodes with their outgoing edges, one row per node: reading edge by edge costs four times as much.
MATCH (m:Memory {generation: $generation})
WHERE m.memory_id > $after
WITH m ORDER BY m.memory_id LIMIT $page
RETURN m.memory_id, m.tenant_id, m.user_id, m.version, m.content_hash, m.tombstone,
  [(m)-[r]->(target) | [type(r), r.kind, r.weight, target.memory_id, target.type, target.id]]
