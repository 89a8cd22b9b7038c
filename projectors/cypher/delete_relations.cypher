// Between two entities that the memory states; the pair is bound first, so a much-related entity is never walked through.
UNWIND $places AS place
MATCH (m {generation: $generation})
WHERE elementId(m) = place
MATCH (m)-[:STATES]->(subject:Entity)
MATCH (m)-[:STATES]->(object:Entity)
MATCH (subject)-[r]->(object)
WHERE r.memory_id = m.memory_id
DELETE r
