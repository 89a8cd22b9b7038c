// One hop. What nearly everything leads to says nothing, so such a hub is not walked through.
UNWIND $frontier AS node_id
MATCH (n) WHERE elementId(n) = node_id
  AND n.generation = $generation AND n.tenant_id = $tenant_id AND n.user_id = $user_id
  AND COUNT { (n)--() } <= $hub_degree
MATCH (n)-[r]-(next)
WHERE next.generation = $generation AND next.tenant_id = $tenant_id AND next.user_id = $user_id
  AND (next:Entity OR (next.version > 0 AND next.tombstone = false))
RETURN node_id, elementId(next) AS next_id, type(r) AS type, r.weight AS weight, startNode(r) = n AS outgoing,
  next.memory_id AS memory_id, next.version AS version, next.status AS status, next.type AS entity_type,
  next.id AS entity_id
ORDER BY coalesce(next.importance, 1.0) DESC, next_id
LIMIT $limit
