-- The next rows of these shards in order of commit, without those of users that wait for an earlier row.
SELECT outbox_id, event_id::text, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,
    repair_header::text, payload, attempts
FROM memory_outbox
WHERE outbox_id > %(floor)s AND shard = ANY(%(shards)s)
  AND (%(nobody_held)s OR (tenant_id || '/' || user_id) <> ALL(%(held)s::text[]))
ORDER BY outbox_id
LIMIT %(limit)s;
