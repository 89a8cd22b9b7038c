-- Conflicts that no comparison has proved to be gone, of generations that still exist, the newest first.
SELECT c.store, c.generation, c.tenant_id, c.user_id, c.aggregate_id, c.version, c.event_hash, c.stored_version, c.stored_hash,
    c.times, c.first_at_ms, c.last_at_ms
FROM projection_conflicts AS c
JOIN projections AS p ON p.name = c.store AND p.generation = c.generation
WHERE c.last_at_ms > c.settled_at_ms AND p.state <> 'dropped'
ORDER BY c.last_at_ms DESC, c.store, c.aggregate_id
LIMIT %(limit)s
