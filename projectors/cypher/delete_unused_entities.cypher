// An entity without relations goes with the last memory that named it.
UNWIND $entities AS entity
MATCH (e:Entity {
  generation: $generation, tenant_id: entity.tenant_id, user_id: entity.user_id, type: entity.type, id: entity.id
})
WHERE NOT EXISTS { (e)--() }
DELETE e
