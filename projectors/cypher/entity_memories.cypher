UNWIND $entities AS entity
MATCH (e:Entity {
  generation: $generation, tenant_id: $tenant_id, user_id: $user_id, type: entity.type, id: entity.id
})<-[r:BELONGS_TO|STATES]-(m:Memory)
WHERE m.user_id = $user_id AND m.version > 0 AND m.tombstone = false
WITH e, m, max(r.weight) AS weight
ORDER BY m.importance DESC, m.event_time_ms DESC, m.memory_id
WITH e, collect({memory_id: m.memory_id, version: m.version, weight: weight})[..$limit] AS found
UNWIND found AS hit
RETURN e.type AS entity_type, e.id AS entity_id, hit.memory_id AS memory_id, hit.version AS version,
  hit.weight AS weight
