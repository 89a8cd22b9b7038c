// Relations belong to the memory that states them; this reads those of a stretch of memory ids, wherever they stand.
MATCH (subject:Entity {generation: $generation})-[r]->(object:Entity)
WHERE subject.tenant_id IS NOT NULL AND subject.user_id IS NOT NULL AND subject.type IS NOT NULL
  AND subject.id IS NOT NULL AND r.memory_id > $after AND ($until IS NULL OR r.memory_id <= $until)
RETURN r.memory_id, subject.tenant_id, subject.user_id, type(r), r.predicate, r.weight, subject.type, subject.id,
  object.type, object.id
