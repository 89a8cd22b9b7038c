"""Working memory in Postgres: one transaction takes the position and writes history, session, event and outbox row.

Called by ``working`` alone; it knows the rows, not what they mean. The position row is taken first and state is read only
after that, so a writer that was frozen while its partition moved can change nothing.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from schemas.errors import Misconfigured
from schemas.inputs import InputEnvelope, Origin
from schemas.working import WorkingEvent
from streams.crash import CrashPoints
from streams.postgres import OUTBOX_CHANNEL, Pool, borrowed, scoped, sql
from streams.working_machine import Session

ROLE = "engram_working"


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """What ``chat_history`` keeps of an input, identifiers masked; ``detail`` is a JSON text."""

    user_message: str
    assistant_message: str | None
    stated_at_ms: int
    detail: str = "{}"


class Step(msgspec.Struct, frozen=True):
    """What one input leads to: the session after it, its event (body sealed) and the event as framed bytes."""

    session: Session
    event: WorkingEvent
    payload: bytes


class WorkingRows:
    """Writes to the tables of working memory; ``topic_identity`` has the ids of cluster and topic (``known_log``)."""

    def __init__(self, connections: Pool, topic_identity: str, crash: CrashPoints | None = None) -> None:
        self._connections = connections
        self._crash = crash or CrashPoints()
        self._topic_identity = topic_identity

    async def write(
        self, envelope: InputEnvelope, origin: Origin, history: HistoryRow, step: Callable[[Session], Step]
    ) -> str:
        """Write what ``step`` makes of the session; return ``written``, ``redelivered`` or ``duplicate``.

        All or nothing. Raises ``Retryable`` or ``Broken``, and ``Misconfigured`` when the positions belong to another log.
        """
        status = await self._written(envelope, origin, history, step)
        self._crash.visit("after_commit")
        return status

    async def _written(
        self, envelope: InputEnvelope, origin: Origin, history: HistoryRow, step: Callable[[Session], Step]
    ) -> str:
        names = {"tenant_id": envelope.tenant_id, "user_id": envelope.user_id}
        place = {"partition": origin.partition, "offset": origin.offset, "topic_identity": self._topic_identity}
        async with (
            borrowed(self._connections) as connection,
            scoped(connection, envelope.tenant_id, envelope.user_id),
        ):
            if await (await connection.execute(sql("working_position"), place)).fetchone() is None:
                known = await (await connection.execute(sql("working_position_read"), place)).fetchone()
                self._check_identity(known)
                return "redelivered"
            row = _history_row(envelope, origin, history)
            if await (await connection.execute(sql("working_history"), row)).fetchone() is None:
                # The same event id at a second offset: the position moves, nothing else does.
                return "duplicate"
            session = {**names, "session_id": envelope.session_id}
            found = await (await connection.execute(sql("working_session"), session)).fetchone()
            made = step(_session(found))
            await connection.execute(sql("working_session_write"), {**session, **_session_row(made)})
            await connection.execute(sql("working_event_write"), _event_row(made, origin))
            await connection.execute(sql("working_notify"), {"channel": OUTBOX_CHANNEL})
            self._crash.visit("in_transaction")
            return "written"

    def _check_identity(self, known: tuple[Any, ...] | None) -> None:
        if known is not None and known[0] != self._topic_identity:
            raise Misconfigured(
                "the positions in Postgres belong to another Kafka log: the broker was reset or exchanged; "
                "restore it, or rebuild into an empty database"
            )


def _session(row: tuple[Any, ...] | None) -> Session:
    if row is None:
        return Session()
    state, sequence, last_event_ids, fields = row
    return Session(state, sequence, tuple(last_event_ids), fields)


def _history_row(envelope: InputEnvelope, origin: Origin, history: HistoryRow) -> dict[str, Any]:
    return {
        "tenant_id": envelope.tenant_id,
        "user_id": envelope.user_id,
        "event_id": envelope.event_id,
        "kind": envelope.kind,
        "session_id": envelope.session_id,
        "conversation_id": envelope.conversation_id,
        "channel": envelope.channel,
        "user_message": history.user_message,
        "assistant_message": history.assistant_message,
        "stated_at_ms": history.stated_at_ms,
        "received_at_ms": envelope.received_at_ms,
        "origin_partition": origin.partition,
        "origin_offset": origin.offset,
        "detail": history.detail,
    }


def _session_row(made: Step) -> dict[str, Any]:
    return {
        "state": made.session.state,
        "sequence": made.session.sequence,
        "last_event_ids": list(made.session.last_event_ids),
        "fields": msgspec.json.encode(made.session.fields or {}).decode(),
        "updated_at_ms": made.event.occurred_at_ms,
    }


def _event_row(made: Step, origin: Origin) -> dict[str, Any]:
    event, body = made.event, made.event.body
    return {
        **{name: getattr(event, name) for name in event.__struct_fields__ if name not in ("origin", "body")},
        "origin_partition": origin.partition,
        "origin_offset": origin.offset,
        "key_id": body.key_id if body else None,
        "nonce": body.nonce if body else None,
        "ciphertext": body.ciphertext if body else None,
        "payload": made.payload,
    }
