UNWIND $memories AS memory
MATCH (m:Memory {generation: $generation, tenant_id: memory.tenant_id, memory_id: memory.memory_id})
WHERE m.version = 0 AND NOT EXISTS { (m)--() }
DELETE m
