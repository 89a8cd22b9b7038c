-- What memories said that had been put into a prompt; ids of other users find nothing.
SELECT content FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY (%(memory_ids)s::uuid[])
ORDER BY memory_id;
