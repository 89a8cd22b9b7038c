"""The statements for Neo4j: named files in ``cypher/``, and the rule that each names its tenant and user.

Called by the door to Neo4j alone. Neo4j Community has no roles, so this layer is what keeps users apart: a statement
without ``$tenant_id`` and ``$user_id`` is refused unless the table below says why it serves every user.
"""

import re
from functools import cache
from pathlib import Path

from schemas.errors import Broken

FOLDER = Path(__file__).parent / "cypher"
_LINE_COMMENT = re.compile(r"//[^\n]*")

ACROSS_USERS: dict[str, str] = {
    "constraint_memory": "a constraint holds for every user",
    "constraint_entity": "a constraint holds for every user",
    "index_memory_order": "an index serves every user",
    "write_nodes": "a projector's batch has rows of many users; every row names its own",
    "delete_edges": "a projector's batch has rows of many users; every row names its own",
    "delete_relations": "a projector's batch has rows of many users; every row names its own",
    "move_edges_of_copies": "a repair undoes what stands under another tenant",
    "delete_copies": "a repair undoes what stands under another tenant",
    "sweep_relations": "a repair undoes what stands under another user; it names the memories",
    "create_edges": "a projector's batch has rows of many users; every row names its own",
    "delete_unused": "a projector's batch has rows of many users; every row names its own",
    "versions_of": "the guard reads versions and hashes of a batch",
    "fingerprints_of": "a second look reads versions, hashes and edges of a few memories",
    "fingerprints_page": "reconcile compares versions, hashes and edges of every user",
    "relations_between": "reconcile digests the relations of a page",
    "relations_of": "a second look digests the relations of a few memories",
    "count": "counts a generation",
    "count_edges": "counts a generation",
    "drop_memories": "removes a whole generation",
    "drop_entities": "removes a whole generation",
    "ping": "reads nothing",
}


@cache
def scoped(name: str) -> str:
    """Return the statement ``name`` for one user; raises ``Broken`` when it does not use ``$tenant_id`` and ``$user_id``."""
    return checked(name, _read(name))


@cache
def across_users(name: str) -> str:
    """Return the statement ``name`` that serves every user; raises ``Broken`` when no reason is listed for it."""
    if name not in ACROSS_USERS:
        raise Broken(f"the statement {name} may not run across users: no reason is listed")
    return _read(name)


def checked(name: str, statement: str) -> str:
    """Return ``statement`` if its text, comments aside, uses both parameters of the scope; raises ``Broken`` otherwise."""
    text = _LINE_COMMENT.sub("", statement)
    for parameter in ("tenant_id", "user_id"):
        if not re.search(rf"\${parameter}\b", text):
            raise Broken(f"the statement {name} does not use ${parameter}")
    return statement


def _read(name: str) -> str:
    return (FOLDER / f"{name}.cypher").read_text("utf-8")
