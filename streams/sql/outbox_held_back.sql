-- Users that a dead row holds back, the longest waiting first, and how many there are in all.
SELECT tenant_id, user_id, count(*) OVER ()
FROM outbox_dead
GROUP BY tenant_id, user_id
ORDER BY min(outbox_id)
LIMIT %(limit)s;
