-- Vectors are set as a whole: those of revisions that are not given go.
DELETE FROM memory_vectors
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::uuid[]);
