"""Commands of people: an operator's click takes the same way as a fact from chat, as a proposal in ``memory.proposals``.

Called by the commands of the command line and every other entry. It seals, sends and waits for the outcome that ``remember``
commits; it decides nothing and writes no table.
"""

import asyncio
import time
import uuid
from collections.abc import Mapping

import msgspec

from schemas.codec import Codec
from schemas.errors import Rejected, Retryable
from schemas.ids import check_id, routing_key
from schemas.proposals import KINDS, Command, Proposal
from schemas.settings import Settings
from schemas.topics import PROPOSALS
from streams.changes import CommandOutcome
from streams.kafka import producer, send, started
from streams.key_pool import Minting
from streams.postgres import Connection, scoped, sql
from streams.sealed_records import seal_record
from streams.stage import check_size

POLL_SECONDS = 0.05


async def send_command(
    settings: Settings,
    keys: Minting,
    proposal: Proposal,
    command: Command,
    *,
    codec: Codec | None = None,
) -> None:
    """Seal ``command`` with a new data key of the user and append ``proposal`` with it to the user's stream.

    Raises ``Rejected`` (``bad_id``, ``bad_kind``, ``too_large``) or ``Retryable`` (broker or key store away; the same
    proposal may be sent again, its id makes it count once).
    """
    check_id("tenant_id", proposal.tenant_id)
    check_id("user_id", proposal.user_id)
    if proposal.kind not in KINDS or proposal.kind == "candidates":
        raise Rejected(f"{proposal.kind} is no command: use one of {', '.join(KINDS[1:])}", code="bad_kind")
    codec = codec or Codec()
    key = (await keys.mint(proposal.tenant_id, proposal.user_id, 1))[0]
    sealed = msgspec.structs.replace(proposal, body=seal_record(codec, command, key))
    value = codec.encode(sealed)
    check_size(value, settings.stage_limit_bytes, "the command")
    async with started(producer(settings)) as client:
        topic = PROPOSALS.named(settings.topic_prefix)
        await send(client, topic, value, key=routing_key(proposal.tenant_id, proposal.user_id))


def command_proposal(
    kind: str,
    tenant_id: str,
    user_id: str,
    *,
    actor: str,
    expected_versions: Mapping[str, int] | None = None,
    now_ms: int | None = None,
) -> Proposal:
    """Return a new proposal of ``kind`` without a body; "now" is ``now_ms``, or this machine's clock."""
    at_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return Proposal(
        proposal_id=str(uuid.uuid4()),
        kind=kind,
        tenant_id=tenant_id,
        user_id=user_id,
        actor=actor,
        occurred_at_ms=at_ms,
        stated_at_ms=at_ms,
        received_at_ms=at_ms,
        expected_versions=dict(expected_versions or {}),
    )


async def wait_for_outcome(
    connection: Connection, tenant_id: str, user_id: str, proposal_id: str, *, wait_seconds: float
) -> CommandOutcome:
    """Return what became of a proposal; ``connection`` is one of ``engram_reader``.

    Raises ``Retryable`` when nothing is known after ``wait_seconds``: the command stands in the log and will be decided.
    """
    until = time.monotonic() + wait_seconds
    names = {"tenant_id": tenant_id, "user_id": user_id, "proposal_id": proposal_id}
    while True:
        async with scoped(connection, tenant_id, user_id):
            row = await (await connection.execute(sql("command_outcome"), names)).fetchone()
        if row is not None:
            event_id, kind, outcome, reason, memory_ids, refused, decided_at_ms = row
            return CommandOutcome(
                proposal_id=proposal_id,
                event_id=event_id,
                kind=kind,
                outcome=outcome,
                reason=reason,
                memory_ids=tuple(memory_ids),
                refused=refused,
                decided_at_ms=decided_at_ms,
            )
        if time.monotonic() > until:
            raise Retryable(
                f"command {proposal_id} is in the log but not decided after {wait_seconds:.0f} s: is remember running?"
            )
        await asyncio.sleep(POLL_SECONDS)
