// An entity without relations goes with the last memory that named it, and so does a placeholder that nothing leads to.
UNWIND $places AS place
MATCH (n {generation: $generation})
WHERE elementId(n) = place AND coalesce(n.version, 0) = 0 AND NOT EXISTS { (n)--() }
DELETE n
