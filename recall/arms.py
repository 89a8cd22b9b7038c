"""The arms of recall: vector, exact and intent look-ups, and the walk through the graph, each with a deadline.

Called by ``recall.recall``. An arm returns candidates with how similar it found them; it decides nothing. An arm that is late
or whose store is away is left out and named; what is wrong with the question itself is an error.
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

from projectors.entries import Generation
from projectors.graph_walk import Neighbour
from projectors.vector_search import VectorFilters, VectorHit, VectorQuery
from recall.intents import Intent
from recall.postgres import Reader
from recall.ranking import along_edges, clamp
from recall.requests import ArmReport, Part, RecallRequest
from schemas.errors import Retryable

SEEDS = 5
SEED_SHARE = 0.5
Found = list[tuple[str, Part]]


class VectorSearch(Protocol):
    """The nearest memories of one user in a generation of Milvus."""

    async def search(self, generation: Generation, query: VectorQuery) -> list[VectorHit]:
        """Return hits, best first; raises ``Rejected`` (``wrong_revision``) or ``Retryable``."""
        ...


class GraphSearch(Protocol):
    """The neighbours of memories in a generation of Neo4j."""

    async def expand(
        self,
        generation: Generation,
        tenant_id: str,
        user_id: str,
        memory_ids: Sequence[str],
        *,
        max_hops: int,
        limit: int,
    ) -> list[Neighbour]:
        """Return what is within ``max_hops`` edges, nearest first; raises ``Retryable``."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A request made ready: its vector and the revision that made it, what it asks for, and how much each arm returns."""

    request: RecallRequest
    vector: bytes
    revision: str
    intents: tuple[Intent, ...]
    identifiers: tuple[str, ...]
    statuses: tuple[str, ...]
    candidates: int
    max_hops: int


async def answered(arm: str, work: Awaitable[Found], deadline_seconds: float) -> tuple[Found, ArmReport]:
    """Wait for an arm at most ``deadline_seconds``; return what it found and how it did."""
    started = time.perf_counter()
    found: Found = []
    state, detail = "answered", ""
    try:
        async with asyncio.timeout(max(0.0, deadline_seconds)):
            found = await work
    except TimeoutError:
        state, detail = "late", f"no answer within {deadline_seconds:.2f} s"
    except Retryable as error:
        state, detail = "failed", str(error)
    milliseconds = round((time.perf_counter() - started) * 1000, 1)
    return found, ArmReport(arm=arm, state=state, found=len(found), milliseconds=milliseconds, detail=detail)


async def vector_arm(question: Question, generation: Generation, search: VectorSearch) -> Found:
    """Return the nearest memories; the similarity is the cosine, cut to 0 to 1."""
    request = question.request
    query = VectorQuery(
        request.tenant_id,
        request.user_id,
        question.revision,
        question.vector,
        limit=question.candidates,
        filters=VectorFilters(categories=request.categories, tags=request.tags),
    )
    return [
        (hit.memory_id, Part(arm="vector", similarity=clamp(hit.score), reason="cosine similarity"))
        for hit in await search.search(generation, query)
    ]


async def exact_arm(question: Question, reader: Reader) -> Found:
    """Return memories that name an identifier of the question."""
    if not question.identifiers:
        return []
    return await reader.by_identifier(question.identifiers, question.statuses, question.candidates)


async def intent_arm(question: Question, reader: Reader) -> Found:
    """Return what the question asks for by kind."""
    found: Found = []
    for intent in question.intents:
        found += await reader.by_intent(intent, question.statuses, question.candidates)
    return found


async def graph_arm(question: Question, generation: Generation, search: GraphSearch, seeds: dict[str, float]) -> Found:
    """Return the neighbours of the best seeds (memory id → similarity); nothing without seeds."""
    # A seed is never a neighbour, so what is far behind the best must not be one: it may be worth more as its neighbour.
    least = SEED_SHARE * max(seeds.values(), default=0.0)
    near = [memory_id for memory_id, similarity in seeds.items() if similarity >= least]
    best = sorted(near, key=lambda memory_id: (-seeds[memory_id], memory_id))[:SEEDS]
    if not best or question.max_hops == 0:
        return []
    request = question.request
    neighbours = await search.expand(
        generation,
        request.tenant_id,
        request.user_id,
        best,
        max_hops=question.max_hops,
        limit=question.candidates,
    )
    return [
        (
            found.memory_id,
            Part(
                arm="graph",
                similarity=along_edges(seeds.get(found.seed_id, 0.0), found.hops, found.weight),
                reason=" ".join(step.kind if step.outgoing else f"←{step.kind}" for step in found.path),
            ),
        )
        for found in neighbours
    ]
