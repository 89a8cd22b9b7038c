-- The second half of the switch, in the same transaction: the built generation becomes the live one.
UPDATE projections
SET state = 'live', switched_at_ms = %(now_ms)s
WHERE name = %(name)s AND generation = %(generation)s AND state = 'building'
