// Both ends exist already: the memory's STATES edges lead to them.
UNWIND $relations AS relation
MATCH (subject:Entity {
  generation: $generation, tenant_id: relation.tenant_id, user_id: relation.user_id,
  type: relation.subject_type, id: relation.subject_id
})
MATCH (object:Entity {
  generation: $generation, tenant_id: relation.tenant_id, user_id: relation.user_id,
  type: relation.object_type, id: relation.object_id
})
CREATE (subject)-[r:$(relation.type)]->(object)
SET r = relation.properties
