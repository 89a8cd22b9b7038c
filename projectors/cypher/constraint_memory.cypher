CREATE CONSTRAINT memory_key IF NOT EXISTS
FOR (m:Memory) REQUIRE (m.generation, m.tenant_id, m.memory_id) IS UNIQUE
