// A repair trusts no STATES edge: it looks through all relations of the user. Returns the ends that may be unused now.
UNWIND $rows AS row
MATCH (subject:Entity {generation: $generation, tenant_id: row.tenant_id, user_id: row.user_id})-[r]->(object:Entity)
WHERE subject.type IS NOT NULL AND subject.id IS NOT NULL AND r.memory_id = row.memory_id
DELETE r
WITH subject, object
UNWIND [subject, object] AS target
RETURN DISTINCT
  'Entity' AS label, target.tenant_id AS tenant_id, target.user_id AS user_id,
  null AS memory_id, target.type AS type, target.id AS id
