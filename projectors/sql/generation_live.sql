-- The generation that readers use.
SELECT generation, state, detail, coalesce(switched_at_ms, created_at_ms)
FROM projections
WHERE name = %(name)s AND state = 'live'
