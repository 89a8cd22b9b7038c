"""The stage ``embed``: vectors for what was admitted, from ``memory.admitted`` to ``memory.proposals``.

Makes the proposal that carries all model output of one input, so that a replay needs no model. Only masked text is ever
embedded. The model runs in a thread: it holds the interpreter's lock for milliseconds, and the consumer has its own thread.
Run by ``streams.delivery``. Never decides and never writes to a store.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from schemas.candidates import Candidate, MemoryAdmitted, Vector
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.ids import derived_id, routing_key
from schemas.proposals import Proposal
from schemas.settings import Settings
from schemas.topics import ADMITTED, PROPOSALS, Topic
from streams.crash import CrashPoints
from streams.inputs import Keys
from streams.sealed_records import seal_record
from streams.stage import Input, Output, Refusal, StageResult, check_size, unless_rejected
from streams.stage_events import Opened, open_events, refusal_of

ACTOR = "turn"
EMBEDDED_OUTCOMES = ("admit", "pending", "")
# The model gains nothing from more, and the interpreter's lock is free in between.
_TEXTS_AT_ONCE = 32


class Embedder(Protocol):
    """Makes vectors; ``revision`` names model and version."""

    @property
    def revision(self) -> str:
        """Return the name that goes with every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return one vector per text: little-endian float32 bytes."""
        ...


class Embed:
    """``mask`` takes identifiers out of a text; ``embedder`` is the model."""

    name = "embed"
    source: Topic = ADMITTED

    def __init__(
        self,
        mask: Callable[[str], str],
        embedder: Embedder,
        codec: Codec,
        keys: Keys,
        *,
        settings: Settings,
        now_ms: Callable[[], int],
        crash: CrashPoints | None = None,
    ) -> None:
        self._mask = mask
        self._embedder = embedder
        self._codec = codec
        self._keys = keys
        self._settings = settings
        self._now_ms = now_ms
        self._crash = crash or CrashPoints()
        self._last_ms = 0
        # One thread for good: the model keeps its work space per thread and builds it at the first call.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")

    async def warm_up(self) -> None:
        """Let the model do its first, slow call before the first input waits for it."""
        await self._in_its_thread(["warm up", "预热"])

    def close(self) -> None:
        """End the model's thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_its_thread(self, texts: Sequence[str]) -> Sequence[bytes]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embedder.embed, texts)

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        """Return the ``candidates`` proposal of each ``MemoryAdmitted``, or why it is refused (``erased``, …).

        One call of the model for all of them.
        """
        found = await open_events(self._codec, self._keys, inputs, MemoryAdmitted)
        masked = [unless_rejected(self._masked, one) for one in found]
        vectors = await self._vectors(
            text for one in masked if not isinstance(one, Rejected) for text in one.texts.values()
        )
        return [unless_rejected(lambda one: self._proposed(one, vectors), one) for one in masked]

    def _masked(self, opened: Opened[MemoryAdmitted]) -> "_Masked":
        candidates = opened.extraction.candidates if opened.extraction else ()
        texts = {one.ordinal: self._mask(one.content) for one in candidates if one.outcome in EMBEDDED_OUTCOMES}
        return _Masked(opened, texts)

    def _proposed(self, masked: "_Masked", vectors: dict[str, bytes]) -> StageResult:
        opened, texts = masked.opened, masked.texts
        event, extraction = opened.event, opened.extraction
        if extraction is None or opened.key is None:
            return self._empty(event, event.status)
        candidates = tuple(
            _embedded(candidate, texts[candidate.ordinal], self._embedder.revision, vectors)
            if candidate.ordinal in texts
            else candidate
            for candidate in extraction.candidates
        )
        proposal = proposal_of(event, self._occurred_at_ms(), revision=extraction.extractor_revision)
        body = seal_record(self._codec, replace(extraction, candidates=candidates), opened.key)
        return self._result(replace(proposal, body=body))

    def _empty(self, event: MemoryAdmitted, status: str) -> StageResult:
        return self._result(proposal_of(replace(event, status=status), self._occurred_at_ms(), revision=""))

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        """Return a proposal without a body, if tenant and user can be read."""
        return refusal_of(self._codec, one, error, MemoryAdmitted, self._empty)

    def _result(self, proposal: Proposal) -> StageResult:
        value = self._codec.encode(proposal)
        check_size(value, self._settings.stage_limit_bytes, f"the output for {PROPOSALS.name}")
        key = routing_key(proposal.tenant_id, proposal.user_id)
        return StageResult((Output(PROPOSALS, key, value),), proposal.status)

    def _occurred_at_ms(self) -> int:
        # "Now" of a user never goes back, even when this machine's clock is set back.
        self._last_ms = max(self._last_ms, self._now_ms())
        return self._last_ms

    async def _vectors(self, texts: Iterable[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(text for text in texts if text.strip()))
        if not wanted:
            return {}
        self._crash.visit("before_model", len(wanted))
        made: list[bytes] = []
        for start in range(0, len(wanted), _TEXTS_AT_ONCE):
            made += await self._in_its_thread(wanted[start : start + _TEXTS_AT_ONCE])
        self._crash.visit("after_model", len(wanted))
        return dict(zip(wanted, made, strict=True))


@dataclass(frozen=True, slots=True)
class _Masked:
    """An opened event and the masked text of each candidate that gets a vector, by its ordinal."""

    opened: Opened[MemoryAdmitted]
    texts: dict[int, str]


def _embedded(candidate: Candidate, masked: str, revision: str, vectors: dict[str, bytes]) -> Candidate:
    made = (Vector(revision, vectors[masked]),) if masked in vectors else ()
    return replace(candidate, masked_text=masked, vectors=made)


def proposal_of(event: MemoryAdmitted, occurred_at_ms: int, *, revision: str) -> Proposal:
    """Return the proposal of ``event`` without a body; its id follows from the event and the extractor's revision.

    So a redelivered or doubled input proposes the same thing, and a newer extractor another one.
    """
    return Proposal(
        proposal_id=derived_id("proposal", event.tenant_id, event.user_id, event.event_id, revision),
        kind="candidates",
        tenant_id=event.tenant_id,
        user_id=event.user_id,
        actor=ACTOR,
        occurred_at_ms=occurred_at_ms,
        stated_at_ms=event.stated_at_ms,
        received_at_ms=event.received_at_ms,
        event_id=event.event_id,
        session_id=event.session_id,
        status=event.status,
        timezone_offset=event.timezone_offset,
        origin=event.origin,
    )
