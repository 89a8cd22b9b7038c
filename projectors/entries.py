"""What a derived store says of one id: its fingerprint, and whether it shows content.

Shared by the guard, the doors, rebuild and reconcile. Pure: no store is asked here.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Store = Literal["milvus", "neo4j", "influx"]
STORES: tuple[Store, ...] = ("milvus", "neo4j", "influx")
Key = tuple[str | int, ...]


class Fingerprint(NamedTuple):
    """What the guard compares: version and content hash, and for vectors the embedding revision and the vector's digest.

    In Neo4j ``digest`` is that of the edges and is filled only by a deep read. In InfluxDB ``version`` is the sequence.
    """

    version: int
    content_hash: str
    revision: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a store. ``key`` is (memory_id,) or (tenant_id, user_id, session_id, sequence, occurred_at_ms).

    ``content`` is false for a versioned tombstone.
    """

    key: Key
    tenant_id: str
    user_id: str
    fingerprint: Fingerprint
    content: bool = True


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a projection: ``number`` from 1, ``state`` building, live, draining or dropped.

    ``revision`` and ``dimension`` say which vectors a Milvus generation holds; other stores leave them empty.
    ``changed_at_ms`` is when the state was entered.
    """

    store: Store
    number: int
    state: str = "live"
    revision: str = ""
    dimension: int = 0
    changed_at_ms: int = field(default=0, compare=False)
