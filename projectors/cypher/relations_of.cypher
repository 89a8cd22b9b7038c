UNWIND $users AS user
MATCH (subject:Entity {generation: $generation, tenant_id: user.tenant_id, user_id: user.user_id})-[r]->(object:Entity)
WHERE subject.type IS NOT NULL AND subject.id IS NOT NULL AND r.memory_id IN user.memory_ids
RETURN r.memory_id AS memory_id, subject.tenant_id AS tenant_id, subject.user_id AS user_id, type(r) AS type,
  r.predicate AS predicate, r.weight AS weight, subject.type AS subject_type, subject.id AS subject_id,
  object.type AS object_type, object.id AS object_id
