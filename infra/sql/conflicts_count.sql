-- How many conflicts are open, by store.
SELECT c.store, count(*)
FROM projection_conflicts AS c
JOIN projections AS p ON p.name = c.store AND p.generation = c.generation
WHERE c.last_at_ms > c.settled_at_ms AND p.state <> 'dropped'
GROUP BY c.store
