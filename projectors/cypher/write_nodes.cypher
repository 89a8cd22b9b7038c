// One statement for a batch: its nodes, and what their edges lead to. The version never goes down, whatever the guard saw
// before: it is checked again under the node's lock. What stands under the memory's id for another tenant keeps a node out.
// A target that is not known yet becomes a placeholder of version 0; its own update fills it.
CALL () {
  UNWIND $rows AS row
  MERGE (m:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})
  ON CREATE SET m.version = 0, m.user_id = row.user_id
  // A match alone takes no lock that keeps another writer out until the end; a write does, and what is read after it holds.
  SET m.locked = true
  REMOVE m.locked
  WITH m, row, m.version AS before, coalesce(m.relations, 0) AS relations, EXISTS { (m)-->() } AS linked
  WITH m, row, linked, relations, $forced OR (
    (before = 0 OR (m.user_id = row.user_id AND before < row.version))
    AND NOT EXISTS {
      MATCH (copy:Memory {generation: $generation, memory_id: row.memory_id})
      USING INDEX copy:Memory(generation, memory_id)
      WHERE copy.version > 0 AND elementId(copy) <> elementId(m)
    }
  ) AS applied
  CALL (m, row, applied) {
    WITH m, row, applied
    WHERE applied
    SET m = row.properties
  }
  RETURN collect([elementId(m), applied, linked, relations]) AS nodes
}
CALL () {
  UNWIND $entities AS end
  MERGE (e:Entity {generation: $generation, tenant_id: end[0], user_id: end[1], type: end[2], id: end[3]})
  RETURN collect(elementId(e)) AS entities
}
CALL () {
  UNWIND $memories AS end
  MERGE (m:Memory {generation: $generation, tenant_id: end[0], memory_id: end[2]})
  ON CREATE SET m.version = 0, m.user_id = end[1]
  RETURN collect(elementId(m)) AS memories
}
RETURN nodes, entities, memories
