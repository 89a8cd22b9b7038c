// Both ends are known by their places in the store: nothing is looked up by name again.
UNWIND $rows AS row
CALL (row) {
  MATCH (m) WHERE elementId(m) = row.place
  UNWIND row.edges AS edge
  MATCH (target) WHERE elementId(target) = edge[0]
  CREATE (m)-[r:$(edge[1])]->(target)
  SET r = {
    kind: edge[2], generation: $generation, tenant_id: row.tenant_id, user_id: row.user_id, version: row.version,
    weight: edge[3]
  }
}
CALL (row) {
  UNWIND row.relations AS relation
  MATCH (subject) WHERE elementId(subject) = relation[0]
  MATCH (object) WHERE elementId(object) = relation[1]
  CREATE (subject)-[r:$(relation[2])]->(object)
  SET r = {
    memory_id: row.memory_id, predicate: relation[3], generation: $generation, tenant_id: row.tenant_id,
    user_id: row.user_id, version: row.version, weight: relation[4]
  }
}
