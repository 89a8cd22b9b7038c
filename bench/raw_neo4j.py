"""The raw rate of Neo4j: the blocking driver, one transaction a batch, plain UNWIND statements with fixed types.

Called by the groups ``projectors`` and ``rebuild`` with the nodes that a projector wrote. It writes the same nodes, edges and
relations, with none of the guards.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import neo4j

from bench.recorded import Items, Step
from projectors.graph_write import STATES, Row, node_row
from projectors.projection import (
    ENTITY_TARGET,
    MEMORY_TARGET,
    GraphNode,
    edge_type,
    entity_of,
    stated_entities,
)
from schemas.settings import Settings

NODES = """
UNWIND $rows AS row
MERGE (m:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})
SET m = row.properties
"""
ENTITIES = """
UNWIND $rows AS row
MERGE (:Entity {
  generation: $generation, tenant_id: row.tenant_id, user_id: row.user_id, type: row.entity_type, id: row.entity_id
})
"""
ENTITY_EDGES = """
UNWIND $rows AS row
MATCH (m:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})
MATCH (e:Entity {
  generation: $generation, tenant_id: row.tenant_id, user_id: row.user_id, type: row.entity_type, id: row.entity_id
})
CREATE (m)-[r:TYPE]->(e) SET r = row.properties
"""
MEMORY_EDGES = """
UNWIND $rows AS row
MATCH (m:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.memory_id})
MERGE (t:Memory {generation: $generation, tenant_id: row.tenant_id, memory_id: row.target_id})
CREATE (m)-[r:TYPE]->(t) SET r = row.properties
"""
RELATIONS = """
UNWIND $rows AS row
MATCH (s:Entity {
  generation: $generation, tenant_id: row.tenant_id, user_id: row.user_id, type: row.subject_type, id: row.subject_id
})
MATCH (o:Entity {
  generation: $generation, tenant_id: row.tenant_id, user_id: row.user_id, type: row.object_type, id: row.object_id
})
CREATE (s)-[r:TYPE]->(o) SET r = row.properties
"""
Statement = tuple[str, list[dict[str, Any]]]


def load(settings: Settings, mark: str, steps: Sequence[Step]) -> float:
    """Return the seconds for the steps under an unused mark; the rows are made before the clock runs."""
    batches = [_statements(step, mark) for step in steps if step is not None]
    auth = (settings.neo4j_user, settings.neo4j_password.get_secret_value())
    with (
        neo4j.GraphDatabase.driver(settings.neo4j_uri, auth=auth, notifications_min_severity="OFF") as driver,
        driver.session() as session,
    ):
        driver.verify_connectivity()
        began = time.perf_counter()
        for batch in batches:
            session.execute_write(_write, batch, mark)
        return time.perf_counter() - began


def _write(transaction: neo4j.ManagedTransaction, batch: Sequence[Statement], mark: str) -> None:
    for statement, rows in batch:
        transaction.run(statement, {"rows": rows, "generation": mark}).consume()


def _statements(items: Items, mark: str) -> list[Statement]:
    entity_rows, memory_rows = _entity_edges(items, mark), _memory_edges(items, mark)
    names = ("tenant_id", "user_id", "entity_type", "entity_id")
    entities = {tuple(row[name] for name in names): {name: row[name] for name in names} for row in entity_rows}
    nodes = [node_row(item, mark) for item in items]
    found = [(NODES, nodes), (ENTITIES, list(entities.values()))]
    for text, rows in (
        (ENTITY_EDGES, entity_rows),
        (MEMORY_EDGES, memory_rows),
        (RELATIONS, _relation_rows(items, mark)),
    ):
        found += _by_type(text, rows)
    return found


def _by_type(text: str, rows: Sequence[dict[str, Any]]) -> list[Statement]:
    """One statement for each type of edge, with the type in its text: the planner likes that best."""
    kinds: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        kinds[row["type"]].append(row)
    return [(text.replace("TYPE", kind), some) for kind, some in kinds.items()]


def _memory_edges(nodes: Iterable[GraphNode], mark: str) -> list[Row]:
    """Return the edges that lead to memories."""
    return [
        _edge(node, edge.kind, edge.weight, mark) | {"target_id": edge.target_id}
        for node in nodes
        for edge in node.edges
        if edge.target_kind == MEMORY_TARGET
    ]


def _entity_edges(nodes: Iterable[GraphNode], mark: str) -> list[Row]:
    """Return the edges that lead to entities, the STATES edges of relations among them."""
    rows = []
    for node in nodes:
        named = [(e.kind, e.weight, *entity_of(e.target_id)) for e in node.edges if e.target_kind == ENTITY_TARGET]
        named += [(STATES, 1.0, *entity) for entity in stated_entities(node.relations)]
        rows += [
            _edge(node, kind, weight, mark) | {"entity_type": entity_type, "entity_id": entity_id}
            for kind, weight, entity_type, entity_id in named
        ]
    return rows


def _relation_rows(nodes: Iterable[GraphNode], mark: str) -> list[Row]:
    """Return the relations that memories state, each with its owner and the owner's version."""
    return [
        {
            "tenant_id": node.tenant_id,
            "user_id": node.user_id,
            "type": edge_type(relation.predicate),
            "subject_type": relation.subject_type,
            "subject_id": relation.subject_id,
            "object_type": relation.object_type,
            "object_id": relation.object_id,
            "properties": {
                "memory_id": node.memory_id,
                "predicate": relation.predicate,
                **_properties(node, relation.weight, mark),
            },
        }
        for node in nodes
        for relation in node.relations
    ]


def _edge(node: GraphNode, kind: str, weight: float, mark: str) -> Row:
    return {
        "tenant_id": node.tenant_id,
        "user_id": node.user_id,
        "memory_id": node.memory_id,
        "type": edge_type(kind),
        "properties": {"kind": kind, **_properties(node, weight, mark)},
    }


def _properties(node: GraphNode, weight: float, mark: str) -> Row:
    return {
        "generation": mark,
        "tenant_id": node.tenant_id,
        "user_id": node.user_id,
        "version": node.fingerprint.version,
        "weight": float(weight),
    }
