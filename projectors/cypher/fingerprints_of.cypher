// Nodes with their outgoing edges, one row per node: reading edge by edge costs four times as much.
UNWIND $ids AS memory_id
MATCH (m:Memory {generation: $generation, memory_id: memory_id})
RETURN m.memory_id, m.tenant_id, m.user_id, m.version, m.content_hash, m.tombstone,
  [(m)-[r]->(target) | [type(r), r.kind, r.weight, target.memory_id, target.type, target.id]]
