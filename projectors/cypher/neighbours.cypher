// One hop, in one record: the driver takes five times as long over a record for each neighbour. What nearly everything
// leads to says nothing, so such a hub is not walked through.
UNWIND $frontier AS node_id
MATCH (n) WHERE elementId(n) = node_id
  AND n.generation = $generation AND n.tenant_id = $tenant_id AND n.user_id = $user_id
  AND COUNT { (n)--() } <= $hub_degree
MATCH (n)-[r]-(next)
WHERE next.generation = $generation AND next.tenant_id = $tenant_id AND next.user_id = $user_id
  AND (next:Entity OR (next.version > 0 AND next.tombstone = false))
WITH node_id, n, r, next, elementId(next) AS next_id
ORDER BY coalesce(next.importance, 1.0) DESC, next_id
LIMIT $limit
RETURN collect([
  node_id, next_id, type(r), r.weight, startNode(r) = n,
  next.memory_id, next.version, next.status, next.type, next.id
]) AS found
