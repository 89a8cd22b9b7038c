-- Begins a building generation with the next number, unless one is being built already.
INSERT INTO projections (name, generation, state, created_at_ms, detail)
SELECT %(name)s, max(generation) + 1, 'building', %(now_ms)s, %(detail)s
FROM projections
WHERE name = %(name)s
HAVING count(*) > 0 AND bool_and(state <> 'building')
ON CONFLICT DO NOTHING
