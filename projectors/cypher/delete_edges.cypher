// A memory's outgoing edges are replaced as a set, so the old ones go first. Returns the targets that may be unused now.
UNWIND $rows AS row
MATCH (m:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})-[r]->(target)
DELETE r
RETURN DISTINCT
  labels(target)[0] AS label, target.tenant_id AS tenant_id, target.user_id AS user_id,
  target.memory_id AS memory_id, target.type AS type, target.id AS id
