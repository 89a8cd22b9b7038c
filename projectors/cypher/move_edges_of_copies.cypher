// A copy stands under the memory's id for another tenant. What leads to it from other memories leads to the memory itself.
UNWIND $rows AS row
MATCH (copy:Memory {generation: $generation, memory_id: row.memory_id})
WHERE coalesce(copy.tenant_id, '') <> row.tenant_id
MATCH (own:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})
MATCH (source)-[r]->(copy)
WHERE source <> copy
CREATE (source)-[moved:$(type(r))]->(own)
SET moved = properties(r)
DELETE r
