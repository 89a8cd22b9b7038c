"""Remember and its surroundings on the real servers, with the proposals of ``truth_world`` sealed as they travel."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from truth_world import POLICY, TENANT, USER

from schemas.codec import Codec
from schemas.inputs import Origin
from schemas.memories import Memory
from schemas.settings import Settings
from streams.changes import DecodedProposal
from streams.crash import CrashPoints
from streams.decision_policy import DecisionPolicy
from streams.key_store import KeyStore
from streams.postgres import Connection, connect
from streams.postgres_truth import as_decided
from streams.remember import Outcome, Remember
from streams.sealed_records import seal_record
from streams.stage import Input

CODEC = Codec()
CLUSTER = "cluster-1"


@dataclass
class Bench:
    """A running ``Remember`` with a key store and an administrator's connection."""

    settings: Settings
    remember: Remember
    keys: KeyStore
    admin: Connection

    async def encode(self, proposal: DecodedProposal) -> bytes:
        envelope = proposal.envelope
        if proposal.body is None:
            return CODEC.encode(envelope)
        (key,) = await self.keys.mint(envelope.tenant_id, envelope.user_id, 1)
        return CODEC.encode(msgspec.structs.replace(envelope, body=seal_record(CODEC, proposal.body, key)))

    async def apply(self, proposal: DecodedProposal, offset: int, partition: int = 0) -> Outcome:
        return await self.handle(await self.encode(proposal), offset, partition)

    async def handle(self, message: bytes, offset: int, partition: int = 0) -> Outcome:
        (outcome,) = await self.remember.handle([Input(message, Origin(partition, offset))])
        return outcome

    async def memories(self, tenant_id: str = TENANT, user_id: str = USER) -> dict[str, Memory]:
        rows = await self.rows(
            "SELECT record::text FROM memory_records WHERE tenant_id = %s AND user_id = %s ORDER BY memory_id",
            tenant_id,
            user_id,
        )
        found = [as_decided(msgspec.json.decode(row[0], type=Memory)) for row in rows]
        return {memory.memory_id: memory for memory in found}

    async def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Ask as administrator, past every policy."""
        return await (await self.admin.execute(statement, parameters)).fetchall()  # type: ignore[call-overload]


@asynccontextmanager
async def opened(
    settings: Settings, policy: DecisionPolicy = POLICY, crash: CrashPoints | None = None, cluster: str = CLUSTER
) -> AsyncIterator[Bench]:
    remember = await Remember.open(settings, CODEC, policy, topic_identity=cluster, crash=crash)
    keys = await KeyStore.open(settings)
    admin = await connect(settings, settings.postgres_admin_user, autocommit=True)
    try:
        yield Bench(settings, remember, keys, admin)
    finally:
        await admin.close()
        await keys.close()
        await remember.close()
