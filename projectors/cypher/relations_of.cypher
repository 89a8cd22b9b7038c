MATCH (subject:Entity {generation: $generation})-[r]->(object:Entity)
WHERE subject.tenant_id IS NOT NULL AND subject.user_id IS NOT NULL AND subject.type IS NOT NULL
  AND subject.id IS NOT NULL AND r.memory_id IN $ids
RETURN r.memory_id AS memory_id, subject.tenant_id AS tenant_id, subject.user_id AS user_id, type(r) AS type,
  r.predicate AS predicate, r.weight AS weight, subject.type AS subject_type, subject.id AS subject_id,
  object.type AS object_type, object.id AS object_id
