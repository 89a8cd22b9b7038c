-- A relation belongs to the memory that states it: it is written anew with that memory, and goes with it.
DELETE FROM relations
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::uuid[]);
