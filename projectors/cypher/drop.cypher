MATCH (n {generation: $generation})
WHERE n:Memory OR n:Entity
WITH n LIMIT $batch
DETACH DELETE n
RETURN count(*) AS removed
