// What stands under the memory's id for another tenant goes, with its edges. Returns the targets that may be unused now.
UNWIND $rows AS row
MATCH (copy:Memory {generation: $generation, memory_id: row.memory_id})
WHERE coalesce(copy.tenant_id, '') <> row.tenant_id
OPTIONAL MATCH (copy)-[]->(target)
WITH copy, collect(DISTINCT {
  label: labels(target)[0], tenant_id: target.tenant_id, user_id: target.user_id,
  memory_id: target.memory_id, type: target.type, id: target.id
}) AS targets
DETACH DELETE copy
WITH targets
UNWIND targets AS target
RETURN DISTINCT
  target.label AS label, target.tenant_id AS tenant_id, target.user_id AS user_id,
  target.memory_id AS memory_id, target.type AS type, target.id AS id
