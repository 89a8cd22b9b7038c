-- Marks a generation dropped; its projector ends within a second, and its data may go.
UPDATE projections
SET state = 'dropped', switched_at_ms = %(now_ms)s
WHERE name = %(name)s AND generation = %(generation)s AND state IN ('building', 'draining')
