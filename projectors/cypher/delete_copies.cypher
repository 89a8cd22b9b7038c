// What stands under the memory's id for another tenant goes, with its edges. Returns the places that may be unused now.
UNWIND $rows AS row
MATCH (copy:Memory {generation: $generation, memory_id: row.memory_id})
WHERE coalesce(copy.tenant_id, '') <> row.tenant_id
OPTIONAL MATCH (copy)-[]->(target)
WITH copy, collect(DISTINCT elementId(target)) AS places
DETACH DELETE copy
WITH places
UNWIND places AS place
RETURN DISTINCT place
