MATCH (m:Memory {generation: $generation})-[edge]->()
RETURN count(edge) AS edges
