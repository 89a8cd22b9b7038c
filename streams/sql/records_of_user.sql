-- A page of one user's records in the order of ids, after the last one of the page before.
SELECT record::text FROM memory_records
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id > %(after)s::uuid
  AND status = ANY(%(statuses)s::text[])
ORDER BY memory_id
LIMIT %(limit)s;
