// A target that is not known yet becomes a placeholder of version 0; its own update fills it.
UNWIND $edges AS edge
MATCH (m:Memory {generation: $generation, tenant_id: edge.tenant_id, memory_id: edge.memory_id})
MERGE (target:Memory {generation: $generation, tenant_id: edge.tenant_id, memory_id: edge.target_id})
ON CREATE SET target.version = 0, target.user_id = edge.user_id
CREATE (m)-[r:$(edge.type)]->(target)
SET r = edge.properties
