"""The question that recall puts to Milvus, and its filter, in which tenant and user always stand.

Called by recall (which makes ``VectorQuery``) and by the door to Milvus. Pure. Filter templates are not supported by every
server, so checked texts are quoted here and nowhere else.
"""

import json
from dataclasses import dataclass

from projectors.projection import ACTIVE
from schemas.errors import Rejected
from schemas.ids import check_id


@dataclass(frozen=True, slots=True)
class VectorFilters:
    """What narrows a search: any of the categories, any of the tags, event time in [from, to) in milliseconds."""

    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    event_time_from_ms: int | None = None
    event_time_to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """A search among one user's active memories: ``vector`` is little-endian float32 of ``revision``, ``limit`` 1 to 1,000."""

    tenant_id: str
    user_id: str
    revision: str
    vector: bytes
    limit: int = 20
    filters: VectorFilters = VectorFilters()


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A memory that was found, the version the store shows, and its cosine similarity to the query (−1 to 1)."""

    memory_id: str
    version: int
    score: float


def expression(query: VectorQuery) -> str:
    """Return the filter of ``query``; raises ``Rejected`` for ids outside the pattern and names that cannot be quoted."""
    if not 1 <= query.limit <= 1000:
        raise Rejected("the limit of a vector search must be 1 to 1000", code="bad_limit")
    filters = query.filters
    parts = [
        f"tenant_id == {json.dumps(check_id('tenant_id', query.tenant_id))}",
        f"user_id == {json.dumps(check_id('user_id', query.user_id))}",
        f"status == {json.dumps(ACTIVE)}",
        "tombstone == false",
    ]
    if filters.categories:
        parts.append(f"category in {_literals(filters.categories)}")
    if filters.tags:
        parts.append(f"array_contains_any(tags, {_literals(filters.tags)})")
    if filters.event_time_from_ms is not None:
        parts.append(f"event_time >= {int(filters.event_time_from_ms)}")
    if filters.event_time_to_ms is not None:
        parts.append(f"event_time < {int(filters.event_time_to_ms)}")
    return " and ".join(parts)


def quoted(text: str) -> str:
    """Return ``text`` if it can stand inside a quoted literal as it is; raises ``Rejected`` (``bad_filter``) if not."""
    if not text or len(text) > 256 or '"' in text or "\\" in text or not text.isprintable():
        raise Rejected("a filter value must have 1 to 256 printable characters without quotes", code="bad_filter")
    return text


def _literals(names: tuple[str, ...]) -> str:
    return json.dumps([quoted(name) for name in names], ensure_ascii=False)
