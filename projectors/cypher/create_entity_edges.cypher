UNWIND $edges AS edge
MATCH (m:Memory {generation: $generation, tenant_id: edge.tenant_id, memory_id: edge.memory_id})
MERGE (target:Entity {
  generation: $generation, tenant_id: edge.tenant_id, user_id: edge.user_id, type: edge.entity_type, id: edge.entity_id
})
CREATE (m)-[r:$(edge.type)]->(target)
SET r = edge.properties
