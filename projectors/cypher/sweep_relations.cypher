// A repair trusts no STATES edge: it looks through all relations of the user.
UNWIND $rows AS row
MATCH (subject:Entity {generation: $generation, tenant_id: row.tenant_id, user_id: row.user_id})-[r]->(:Entity)
WHERE subject.type IS NOT NULL AND subject.id IS NOT NULL AND r.memory_id = row.memory_id
DELETE r
