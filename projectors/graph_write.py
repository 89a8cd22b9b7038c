"""From nodes to the parameters of the statements that write them, and from what was read back to digests.

Called by the door to Neo4j. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from projectors.entries import Entry, Fingerprint
from projectors.projection import (
    ENTITY_TARGET,
    MEMORY_TARGET,
    GraphNode,
    edge_type,
    entity_of,
    entity_target,
    lines_digest,
    stated_entities,
)

STATES = "STATES"
Row = dict[str, Any]
Line = list[str | float]


def node_row(position: int, node: GraphNode, mark: str) -> Row:
    """Return the row of ``node`` in a generation marked ``mark``; ``position`` is its place in the batch."""
    key = {"tenant_id": node.tenant_id, "user_id": node.user_id, "memory_id": node.memory_id}
    own = {
        "generation": mark,
        "version": node.fingerprint.version,
        "content_hash": node.fingerprint.content_hash,
        "status": node.status,
        "tombstone": node.tombstone,
        "relations": len(node.relations),
    }
    version = node.fingerprint.version
    return {"position": position, **key, "version": version, "properties": {**node.properties, **key, **own}}


def memory_edges(nodes: Iterable[GraphNode], mark: str) -> list[Row]:
    """Return the edges that lead to memories."""
    return [
        _edge(node, edge.kind, edge.weight, mark) | {"target_id": edge.target_id}
        for node in nodes
        for edge in node.edges
        if edge.target_kind == MEMORY_TARGET
    ]


def entity_edges(nodes: Iterable[GraphNode], mark: str) -> list[Row]:
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


def relation_rows(nodes: Iterable[GraphNode], mark: str) -> list[Row]:
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


def entries_of(nodes: Sequence[Row], edges: Iterable[Row], relations: Iterable[Row]) -> list[Entry]:
    """Return the entries that these rows make, by rising memory id.

    A placeholder is no entry, unless it has edges or relations of its own; relations whose owner has no node are an entry
    of version 0.
    """
    lines: defaultdict[str, list[Line]] = defaultdict(list)
    scopes: dict[str, tuple[str, str]] = {}
    for edge in edges:
        lines[edge["memory_id"]].append(_edge_line(edge))
    for relation in relations:
        lines[relation["memory_id"]].append(_relation_line(relation))
        scopes[relation["memory_id"]] = (relation["tenant_id"], relation["user_id"])
    found = {row["memory_id"]: row for row in nodes}
    entries = []
    for memory_id in sorted(found.keys() | lines.keys()):
        row, own = found.get(memory_id), lines.get(memory_id, [])
        if row is not None and (row["version"] > 0 or own):
            entries.append(node_entry(row, lines_digest(own) if own else ""))
        elif row is None:
            tenant_id, user_id = scopes[memory_id]
            entries.append(Entry((memory_id,), tenant_id, user_id, Fingerprint(0, "", "", lines_digest(own))))
    return entries


def node_entry(row: Mapping[str, Any], digest: str) -> Entry:
    """Return the entry of one node read back; a tombstone that has edges shows content after all."""
    fingerprint = Fingerprint(int(row["version"]), str(row["content_hash"] or ""), "", digest)
    content = not row["tombstone"] or bool(digest)
    return Entry((row["memory_id"],), str(row["tenant_id"]), str(row["user_id"]), fingerprint, content)


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


def _edge_line(row: Row) -> Line:
    # An edge whose type was changed in the store must not pass for the one that was written.
    kind = row["kind"] if row["kind"] and edge_type(row["kind"]) == row["type"] else f"?{row['type']}"
    if row["target_id"] is not None:
        return ["edge", kind, MEMORY_TARGET, row["target_id"], _weight(row)]
    entity_type, entity_id = str(row["entity_type"]), str(row["entity_id"])
    if kind == STATES:
        return ["states", entity_type, entity_id]
    return ["edge", kind, ENTITY_TARGET, entity_target(entity_type, entity_id), _weight(row)]


def _relation_line(row: Row) -> Line:
    predicate = row["predicate"] or ""
    if not predicate or edge_type(predicate) != row["type"]:
        predicate = f"?{row['type']}"
    ends = [str(row[name]) for name in ("subject_type", "subject_id")]
    target = [str(row[name]) for name in ("object_type", "object_id")]
    return ["relation", *ends, predicate, *target, _weight(row)]


def _weight(row: Row) -> float:
    return -1.0 if row["weight"] is None else float(row["weight"])
