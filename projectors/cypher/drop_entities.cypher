MATCH (e:Entity {generation: $generation})
WHERE e.tenant_id IS NOT NULL AND e.user_id IS NOT NULL AND e.type IS NOT NULL AND e.id IS NOT NULL
WITH e LIMIT $batch
DETACH DELETE e
RETURN count(*) AS removed
