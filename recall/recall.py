"""From a question to memories: arms side by side, one ranking, and Postgres as the judge of what still holds.

Called by ``engram recall`` and every other entry. A shell: ranking and the truth check are pure. Never writes.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from projectors.entries import Generation, Store
from projectors.generations import live_generation
from recall.arms import (
    Found,
    GraphSearch,
    Question,
    VectorSearch,
    answered,
    exact_arm,
    graph_arm,
    intent_arm,
    vector_arm,
)
from recall.intents import identifiers_of, intents_of
from recall.live import LiveMemory
from recall.postgres import Reader
from recall.ranking import DEFAULT_FORM, joined, ranked
from recall.requests import ArmReport, Hit, RecallRequest, RecallResponse, Score
from recall.truth import reason_to_drop, statuses_of
from schemas.errors import Rejected
from schemas.ids import check_id
from schemas.settings import Settings
from streams.embedding import Embedder
from streams.postgres import Pool, borrowed
from streams.text.masking import mask

QUESTION_CHARACTERS = 10_000
SNIPPET_CHARACTERS = 300
FIRST_ARMS_SHARE = 0.6
_SEARCHED: tuple[Store, ...] = ("milvus", "neo4j")


@dataclass(frozen=True, slots=True)
class Deps:
    """What recall talks to; ``pool`` is one of ``engram_reader``, ``now_ms`` the clock."""

    settings: Settings
    embedder: Embedder
    vectors: VectorSearch
    graph: GraphSearch
    pool: Pool
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


async def recall(request: RecallRequest, deps: Deps) -> RecallResponse:
    """Return the memories that answer the question, best first, and how each arm did.

    Raises ``Rejected`` (``bad_id``, ``bad_limit``, ``bad_question``; ``wrong_revision`` when the question was embedded with
    another model than the live collection) and ``Retryable`` when Postgres is away: without it nothing may be shown.
    """
    started = time.perf_counter()
    _check(request)
    question, generations = await asyncio.gather(_question(request, deps), _generations(deps))
    reader = Reader(deps.pool, request.tenant_id, request.user_id)
    deadline = request.deadline_seconds or deps.settings.recall_deadline_seconds
    found, arms = await _first_arms(question, generations, reader, deps, deadline * FIRST_ARMS_SHARE)
    left = deadline - (time.perf_counter() - started)
    more, report = await _graph(question, generations, deps, found, left)
    parts = joined([*found, *more])
    live = await reader.live(list(parts))
    kept, dropped = _judged(request, parts, live, deps.now_ms())
    ranking = ranked(kept, parts, DEFAULT_FORM)[: request.limit or deps.settings.recall_limit]
    return RecallResponse(
        hits=tuple(_hit(memory, score) for memory, score in ranking),
        arms=(*arms, report),
        dropped=dropped,
        generations={store: generation.number for store, generation in generations.items()},
        milliseconds=round((time.perf_counter() - started) * 1000, 1),
    )


def _check(request: RecallRequest) -> None:
    check_id("tenant_id", request.tenant_id)
    check_id("user_id", request.user_id)
    if not request.question.strip() or len(request.question) > QUESTION_CHARACTERS:
        raise Rejected(f"the question must have 1 to {QUESTION_CHARACTERS} characters", code="bad_question")
    if request.limit is not None and not 1 <= request.limit <= 100:
        raise Rejected("the limit must be 1 to 100", code="bad_limit")


async def _question(request: RecallRequest, deps: Deps) -> Question:
    # Memories are embedded without identifiers, so the question is too; the exact arm looks for those.
    vectors = await asyncio.to_thread(deps.embedder.embed, [mask(request.question)])
    settings = deps.settings
    return Question(
        request=request,
        vector=bytes(vectors[0]),
        revision=deps.embedder.revision,
        intents=intents_of(request.question),
        identifiers=identifiers_of(request.question),
        statuses=statuses_of(request),
        candidates=max(settings.recall_candidates, request.limit or settings.recall_limit),
        max_hops=settings.max_hops if request.max_hops is None else request.max_hops,
    )


async def _generations(deps: Deps) -> Mapping[Store, Generation]:
    found: dict[Store, Generation] = {}
    async with borrowed(deps.pool) as connection, connection.transaction():
        for store in _SEARCHED:
            try:
                found[store] = await live_generation(connection, store)
            except Rejected:
                # A store whose worker has never started: its arm is named as failed.
                continue
    return found


async def _first_arms(
    question: Question, generations: Mapping[Store, Generation], reader: Reader, deps: Deps, deadline_seconds: float
) -> tuple[Found, list[ArmReport]]:
    work = {"exact": exact_arm(question, reader), "intent": intent_arm(question, reader)}
    skipped = []
    if "milvus" in generations:
        work["vector"] = vector_arm(question, generations["milvus"], deps.vectors)
    else:
        skipped.append(_skipped("vector", "no live generation of milvus: start its projector"))
    results = await asyncio.gather(*(answered(arm, todo, deadline_seconds) for arm, todo in work.items()))
    found = [hit for hits, _ in results for hit in hits]
    return found, [*skipped, *(report for _, report in results)]


async def _graph(
    question: Question, generations: Mapping[Store, Generation], deps: Deps, found: Found, deadline_seconds: float
) -> tuple[Found, ArmReport]:
    if question.max_hops == 0:
        return [], _skipped("graph", "no hops were asked for", state="skipped")
    if "neo4j" not in generations:
        return [], _skipped("graph", "no live generation of neo4j: start its projector")
    seeds: dict[str, float] = {}
    for memory_id, part in found:
        seeds[memory_id] = max(part.similarity, seeds.get(memory_id, 0.0))
    return await answered("graph", graph_arm(question, generations["neo4j"], deps.graph, seeds), deadline_seconds)


def _skipped(arm: str, why: str, state: str = "failed") -> ArmReport:
    return ArmReport(arm=arm, state=state, found=0, milliseconds=0.0, detail=why)


def _judged(
    request: RecallRequest, memory_ids: Iterable[str], live: Mapping[str, LiveMemory], now_ms: int
) -> tuple[list[LiveMemory], dict[str, int]]:
    kept: list[LiveMemory] = []
    dropped: Counter[str] = Counter()
    for memory_id in memory_ids:
        memory = live.get(memory_id)
        reason = reason_to_drop(memory, request, now_ms)
        if memory is None or reason:
            dropped[reason] += 1
        else:
            kept.append(memory)
    return kept, dict(dropped)


def _hit(memory: LiveMemory, score: Score) -> Hit:
    return Hit(
        memory_id=memory.memory_id,
        version=memory.version,
        status=memory.status,
        category=memory.category,
        subject=memory.subject,
        attribute=memory.attribute,
        snippet=memory.content[:SNIPPET_CHARACTERS],
        value=memory.value,
        source=memory.source,
        confidence=memory.confidence,
        stated_at_ms=memory.stated_at_ms,
        score=score,
        tags=memory.tags,
    )
