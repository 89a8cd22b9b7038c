MATCH (m:Memory {generation: $generation})
WHERE m.version > 0
RETURN count(m) AS entries
