"""What the stage tests share: keys kept in memory, sealed inputs, an extractor of one rule.

The keys stand for the key store's contract (``keys_of`` says ``erased``); the store itself is tested on Postgres.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.candidates import Candidate, Extraction
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.inputs import InputBody, InputEnvelope, Origin, TurnRecorded
from schemas.routing import partition_of
from schemas.sealing import DataKey, KeyName
from schemas.settings import Settings
from streams.extract import Extract
from streams.inputs import OpenedInput
from streams.producer import kind_of
from streams.sealed_records import seal_record
from streams.stage import Input, Refusal, Stage, StageResult

NOW_MS = 1_790_000_000_000
TENANT, USER = "acme", "xiaoming"
CODEC = Codec()


def pure_settings(**changes: object) -> Settings:
    return Settings().model_copy(update={"partitions": 4, **changes})


@dataclass
class MemoryKeys:
    """Data keys by id; ``destroyed`` ones are refused as the key store refuses them."""

    made: dict[str, DataKey] = field(default_factory=dict)
    destroyed: set[str] = field(default_factory=set)

    async def mint(self, tenant_id: str, user_id: str, count: int) -> tuple[DataKey, ...]:
        keys = tuple(DataKey(f"key-{len(self.made) + n}", secrets.token_bytes(32)) for n in range(count))
        self.made.update({key.key_id: key for key in keys})
        return keys

    async def keys_of(self, names: Iterable[KeyName]) -> dict[KeyName, DataKey | Rejected]:
        return {name: self._found(name[2]) for name in names}

    def _found(self, key_id: str) -> DataKey | Rejected:
        if key_id in self.destroyed:
            return Rejected("the key of this record was destroyed", code="erased")
        return self.made.get(key_id) or Rejected("the key is unknown to the key store", code="unknown_key")


async def handled(stage: Stage, message: bytes, position: Origin) -> StageResult:
    """Return what ``stage`` makes of one input; raises why it refuses it."""
    (outcome,) = await stage.handle([Input(message, position)])
    if isinstance(outcome, Rejected):
        raise outcome
    return outcome


async def refusal(stage: Stage, message: bytes, position: Origin, error: Rejected) -> Refusal:
    return await stage.refuse(Input(message, position), error)


def position_of(tenant: str = TENANT, user: str = USER, offset: int = 7) -> Origin:
    return Origin(partition_of(tenant, user, 4), offset)


async def sealed_envelope(keys: MemoryKeys, body: InputBody, **changes: object) -> InputEnvelope:
    fields: dict[str, object] = {
        "event_id": "event-1",
        "kind": kind_of(body),
        "tenant_id": TENANT,
        "user_id": USER,
        "session_id": "session-1",
        "received_at_ms": NOW_MS,
        "timezone_offset": "+08:00",
        **changes,
    }
    key = (await keys.mint(TENANT, USER, 1))[0]
    fields.setdefault("body", seal_record(CODEC, body, key))
    return InputEnvelope(**fields)  # type: ignore[arg-type]


async def message(keys: MemoryKeys, body: InputBody, **changes: object) -> bytes:
    return CODEC.encode(await sealed_envelope(keys, body, **changes))


def turn(user_message: str, assistant_message: str | None = None) -> TurnRecorded:
    return TurnRecorded(user_message=user_message, assistant_message=assistant_message)


class NothingRecalled:
    """Finds no memory; the real reader is tested on Postgres."""

    async def contents(self, tenant_id: str, user_id: str, memory_ids: tuple[str, ...]) -> tuple[str, ...]:
        return ()


def extract_stage(keys: MemoryKeys, **settings: object) -> Extract:
    return Extract(
        understand, NothingRecalled(), CODEC, keys, settings=pure_settings(**settings), now_ms=lambda: NOW_MS
    )


def understand(opened: OpenedInput, recalled_contents: tuple[str, ...] = ()) -> Extraction:
    """Find one fact in a turn that has a user message: the message itself."""
    body = opened.body
    if not isinstance(body, TurnRecorded) or not body.user_message:
        return Extraction(status="nothing", extractor="whole", extractor_revision="whole-1")
    candidate = Candidate(
        ordinal=0,
        type="fact",
        subject="user",
        entity_type="user",
        entity_id="",
        attribute="said",
        value='"x"',
        content=body.user_message,
        language="en",
        confidence=0.9,
        importance=0.5,
        source="user_statement",
    )
    return Extraction(status="extracted", extractor="whole", extractor_revision="whole-1", candidates=(candidate,))
