// Between two entities that the memory states; the pair is bound first, so a much-related entity is never walked through.
UNWIND $rows AS row
MATCH (m:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})
MATCH (m)-[:STATES]->(subject:Entity)
MATCH (m)-[:STATES]->(object:Entity)
MATCH (subject)-[r]->(object)
WHERE r.memory_id = row.memory_id
DELETE r
