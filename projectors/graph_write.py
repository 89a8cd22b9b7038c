"""From nodes to the parameters of the statements that write them, and from what was read back to digests.

Called by the door to Neo4j. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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


class ReadNode(NamedTuple):
    """A node as it was read back; ``edges`` are lists of type, kind, weight, target memory, entity type, entity id."""

    memory_id: str
    tenant_id: str | None
    user_id: str | None
    version: int
    content_hash: str | None
    tombstone: bool | None
    edges: Sequence[Sequence[Any]] = ()


class ReadRelation(NamedTuple):
    """A relation between two entities as it was read back; ``memory_id`` is the memory that owns it."""

    memory_id: str
    tenant_id: str
    user_id: str
    type: str
    predicate: str | None
    weight: float | None
    subject_type: str
    subject_id: str
    object_type: str
    object_id: str


def entries_of(nodes: Iterable[ReadNode], relations: Iterable[ReadRelation]) -> list[Entry]:
    """Return the entries that these make, by rising memory id, one for each.

    A placeholder is no entry, unless it has edges or relations of its own; relations whose owner has no node are an entry
    of version 0. Two nodes under one memory's id are one entry with both hashes, which equals no truth.
    """
    stated: defaultdict[str, list[ReadRelation]] = defaultdict(list)
    for relation in relations:
        stated[relation.memory_id].append(relation)
    shown: defaultdict[str, list[ReadNode]] = defaultdict(list)
    for node in nodes:
        if node.version > 0 or node.edges:
            shown[node.memory_id].append(node)
    return [_entry(memory_id, shown[memory_id], stated[memory_id]) for memory_id in sorted({*shown, *stated})]


def _entry(memory_id: str, nodes: list[ReadNode], relations: list[ReadRelation]) -> Entry:
    lines = [_edge_line(edge) for node in nodes for edge in node.edges]
    lines += [_relation_line(relation) for relation in relations]
    digest = lines_digest(lines) if lines else ""
    if not nodes:
        return Entry((memory_id,), relations[0].tenant_id, relations[0].user_id, Fingerprint(0, "", "", digest))
    nodes = sorted(nodes, key=lambda node: (node.tenant_id or "", node.user_id or ""))
    content_hash = "+".join(node.content_hash or "" for node in nodes)
    fingerprint = Fingerprint(max(node.version for node in nodes), content_hash, "", digest)
    # A tombstone that has edges shows content after all.
    content = bool(digest) or not all(node.tombstone for node in nodes)
    return Entry((memory_id,), nodes[0].tenant_id or "", nodes[0].user_id or "", fingerprint, content)


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


def _edge_line(edge: Sequence[Any]) -> Line:
    type_, kind, weight, memory_id, entity_type, entity_id = edge
    # An edge whose type was changed in the store must not pass for the one that was written.
    shown = kind if kind and edge_type(kind) == type_ else f"?{type_}"
    if memory_id is not None:
        return ["edge", shown, MEMORY_TARGET, str(memory_id), _weight(weight)]
    if shown == STATES:
        return ["states", str(entity_type), str(entity_id)]
    return ["edge", shown, ENTITY_TARGET, entity_target(str(entity_type), str(entity_id)), _weight(weight)]


def _relation_line(relation: ReadRelation) -> Line:
    predicate = relation.predicate
    if not predicate or edge_type(predicate) != relation.type:
        predicate = f"?{relation.type}"
    ends = (relation.subject_type, relation.subject_id, predicate, relation.object_type, relation.object_id)
    return ["relation", *ends, _weight(relation.weight)]


def _weight(weight: float | None) -> float:
    return -1.0 if weight is None else float(weight)
