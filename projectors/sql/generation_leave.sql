-- The first half of the switch: the live generation drains, if the other one is still being built.
UPDATE projections AS live
SET state = 'draining', switched_at_ms = %(now_ms)s
FROM projections AS building
WHERE live.name = %(name)s AND live.state = 'live'
  AND building.name = %(name)s AND building.generation = %(generation)s AND building.state = 'building'
