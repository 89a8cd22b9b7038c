UNWIND $ids AS memory_id
MATCH (m:Memory {generation: $generation, memory_id: memory_id})-[r]->(target)
RETURN m.memory_id AS memory_id, type(r) AS type, r.kind AS kind, r.weight AS weight, target.memory_id AS target_id,
  target.type AS entity_type, target.id AS entity_id
