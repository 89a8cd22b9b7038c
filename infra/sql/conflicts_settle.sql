-- A whole generation was compared and agrees: what conflicted before the comparison began is settled.
UPDATE projection_conflicts
SET settled_at_ms = %(at_ms)s
WHERE store = %(store)s AND generation = %(generation)s AND last_at_ms < %(at_ms)s AND last_at_ms > settled_at_ms
