// The version never goes down, whatever the guard saw before: it is checked again under the node's lock.
UNWIND $rows AS row
MERGE (m:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})
ON CREATE SET m.version = 0, m.user_id = row.user_id
WITH m, row, m.version AS before, coalesce(m.relations, 0) AS relations
WHERE $forced OR before = 0 OR (m.user_id = row.user_id AND before < row.version)
SET m = row.properties
RETURN row.position AS position, before, relations
