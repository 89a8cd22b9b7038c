MATCH (subject:Entity {generation: $generation})-[r]->(object:Entity)
WHERE subject.tenant_id IS NOT NULL AND subject.user_id IS NOT NULL AND subject.type IS NOT NULL
  AND subject.id IS NOT NULL AND r.memory_id IN $ids
RETURN r.memory_id, subject.tenant_id, subject.user_id, type(r), r.predicate, r.weight, subject.type, subject.id,
  object.type, object.id
