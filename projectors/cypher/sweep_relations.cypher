// A repair trusts no STATES edge and no scope: it looks through all relations. Returns the ends that may be unused now.
MATCH (subject:Entity {generation: $generation})-[r]->(object:Entity)
WHERE subject.tenant_id IS NOT NULL AND subject.user_id IS NOT NULL AND subject.type IS NOT NULL
  AND subject.id IS NOT NULL AND r.memory_id IN $ids
DELETE r
WITH subject, object
UNWIND [subject, object] AS target
RETURN DISTINCT elementId(target) AS place
