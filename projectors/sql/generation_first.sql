-- Creates the first generation as live; of several workers that start at once, one inserts.
INSERT INTO projections (name, generation, state, created_at_ms, detail)
SELECT %(name)s, %(generation)s, 'live', %(now_ms)s, %(detail)s
WHERE NOT EXISTS (SELECT FROM projections WHERE name = %(name)s)
ON CONFLICT DO NOTHING
