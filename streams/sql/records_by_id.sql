-- Whole records of one user by id.
SELECT record::text FROM memory_records
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::uuid[])
  AND status = ANY(%(statuses)s::text[])
ORDER BY memory_id;
