-- The oldest row that waits for nobody: neither for its own next try nor behind a row of its user that is late or dead; its age in
-- seconds. Numbers rise with time, so the first one is the oldest.
SELECT o.outbox_id, greatest(0, extract(epoch FROM clock_timestamp() - o.created_at))::double precision
FROM memory_outbox AS o
WHERE NOT EXISTS (SELECT FROM outbox_dead AS d WHERE d.tenant_id = o.tenant_id AND d.user_id = o.user_id)
  AND NOT EXISTS (
      SELECT FROM memory_outbox AS late
      WHERE late.attempts > 0 AND late.available_at > now() AND late.tenant_id = o.tenant_id AND late.user_id = o.user_id
  )
ORDER BY o.outbox_id
LIMIT 1
