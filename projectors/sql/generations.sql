-- The generations of one projection, oldest first.
SELECT generation, state, detail, coalesce(switched_at_ms, created_at_ms)
FROM projections
WHERE name = %(name)s
ORDER BY generation
