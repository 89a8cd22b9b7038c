"""From nodes to the parameters of the statements that write them, and from what was read back to digests.

Called by the door to Neo4j. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from schemas.memories import Edge

STATES = "STATES"
Row = dict[str, Any]
Line = list[str | float]


def node_row(node: GraphNode, mark: str) -> Row:
    """Return the row of ``node`` in a generation marked ``mark``."""
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
    return {**key, "version": version, "properties": {**node.properties, **key, **own}}


@dataclass(frozen=True, slots=True)
class Ends:
    """What the edges of a batch lead to and the batch does not write: entities, and memories that may be unknown yet.

    The lists are the parameters of the statement, each end once: (tenant, user, type, id) and (tenant, user, memory).
    """

    entities: list[list[str]]
    memories: list[list[str]]


def ends_of(nodes: Sequence[GraphNode]) -> Ends:
    """Return the ends of every edge and relation of ``nodes``."""
    own = {(node.tenant_id, node.memory_id) for node in nodes}
    entities: dict[tuple[str, str, str, str], None] = {}
    memories: dict[tuple[str, str], str] = {}
    for node in nodes:
        for entity in _entities(node):
            entities[node.tenant_id, node.user_id, *entity] = None
        for edge in node.edges:
            target = (node.tenant_id, edge.target_id)
            if edge.target_kind == MEMORY_TARGET and target not in own:
                memories.setdefault(target, node.user_id)
    return Ends(
        [list(entity) for entity in entities],
        [[tenant_id, user_id, memory_id] for (tenant_id, memory_id), user_id in memories.items()],
    )


class Places:
    """Where the ends of edges stand: ``nodes`` and ``ends`` with the ids that the server gave them, in the same order."""

    def __init__(
        self, nodes: Mapping[str, GraphNode], ends: Ends, entity_ids: Sequence[str], memory_ids: Sequence[str]
    ):
        self._memories = {(node.tenant_id, node.memory_id): place for place, node in nodes.items()}
        for (tenant_id, _, memory_id), place in zip(ends.memories, memory_ids, strict=True):
            self._memories[tenant_id, memory_id] = place
        self._entities = {tuple(entity): place for entity, place in zip(ends.entities, entity_ids, strict=True)}

    def edges_row(self, place: str, node: GraphNode) -> Row | None:
        """Return what is to be created for the node at ``place``: its edges and relations; ``None`` when it has none."""
        if not node.edges and not node.relations:
            return None
        edges: list[list[Any]] = [
            [self._end(node, edge), edge_type(edge.kind), edge.kind, float(edge.weight)] for edge in node.edges
        ]
        edges += [[self._entity(node, *entity), STATES, STATES, 1.0] for entity in stated_entities(node.relations)]
        relations = [
            [
                self._entity(node, relation.subject_type, relation.subject_id),
                self._entity(node, relation.object_type, relation.object_id),
                edge_type(relation.predicate),
                relation.predicate,
                float(relation.weight),
            ]
            for relation in node.relations
        ]
        return {
            "place": place,
            "tenant_id": node.tenant_id,
            "user_id": node.user_id,
            "memory_id": node.memory_id,
            "version": node.fingerprint.version,
            "edges": edges,
            "relations": relations,
        }

    def targets_of(self, node: GraphNode) -> set[str]:
        """Return the places that the edges of ``node`` lead to."""
        return {self._end(node, edge) for edge in node.edges} | {
            self._entity(node, *entity) for entity in stated_entities(node.relations)
        }

    def _end(self, node: GraphNode, edge: Edge) -> str:
        if edge.target_kind == MEMORY_TARGET:
            return self._memories[node.tenant_id, edge.target_id]
        return self._entity(node, *entity_of(edge.target_id))

    def _entity(self, node: GraphNode, entity_type: str, entity_id: str) -> str:
        return self._entities[node.tenant_id, node.user_id, entity_type, entity_id]


def _entities(node: GraphNode) -> list[tuple[str, str]]:
    named = [entity_of(edge.target_id) for edge in node.edges if edge.target_kind == ENTITY_TARGET]
    return [*named, *stated_entities(node.relations)]


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
