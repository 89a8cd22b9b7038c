CREATE CONSTRAINT entity_key IF NOT EXISTS
FOR (e:Entity) REQUIRE (e.generation, e.tenant_id, e.user_id, e.type, e.id) IS UNIQUE
