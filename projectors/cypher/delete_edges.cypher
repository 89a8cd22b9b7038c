// A memory's outgoing edges are replaced as a set, so the old ones go first. Returns the places that may be unused now.
UNWIND $places AS place
MATCH (m {generation: $generation})-[r]->(target)
WHERE elementId(m) = place
DELETE r
RETURN DISTINCT elementId(target) AS place
