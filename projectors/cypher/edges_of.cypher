UNWIND $ids AS memory_id
MATCH (m:Memory {generation: $generation, memory_id: memory_id})-[r]->(target)
RETURN m.memory_id AS memory_id, m.tenant_id AS tenant_id, m.user_id AS user_id, type(r) AS type, r.kind AS kind,
  r.weight AS weight, r.target AS named, target.memory_id AS target_id, target.type AS entity_type,
  target.id AS entity_id
