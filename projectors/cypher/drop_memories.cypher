MATCH (m:Memory {generation: $generation})
WHERE m.memory_id IS NOT NULL
WITH m LIMIT $batch
DETACH DELETE m
RETURN count(*) AS removed
