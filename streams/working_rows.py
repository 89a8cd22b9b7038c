"""Working memory in Postgres: one transaction takes the positions and writes history, sessions, events and outbox rows.

Called by ``working`` alone; it knows the rows, not what they mean. The position rows are taken first and state is read only
after that, so a writer that was frozen while its partition moved can change nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from schemas.errors import Rejected
from schemas.inputs import InputEnvelope, Origin
from schemas.working import WorkingEvent
from streams.crash import CrashPoints
from streams.postgres import Connection, Pool, borrowed, in_halves, sql, transaction
from streams.postgres_positions import lock_positions
from streams.working_machine import Session

ROLE = "engram_working"
UserName: TypeAlias = tuple[str, str]
SessionName: TypeAlias = tuple[str, str, str]


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


class Entry(msgspec.Struct, frozen=True):
    """One input to write: its envelope and place, its row of the history, and what it makes of its session."""

    envelope: InputEnvelope
    origin: Origin
    history: HistoryRow
    step: Callable[[Session], Step]


class _SessionRow(msgspec.Struct, frozen=True):
    session_id: str
    state: str
    sequence: int
    last_event_ids: tuple[str, ...]
    fields: dict[str, str]


class WorkingRows:
    """Writes to the tables of working memory; ``topic_identity`` has the ids of cluster and topic (``known_log``)."""

    def __init__(self, connections: Pool, topic_identity: str, crash: CrashPoints | None = None) -> None:
        self._connections = connections
        self._crash = crash or CrashPoints()
        self._topic_identity = topic_identity

    async def write(self, entries: Sequence[Entry]) -> list[str | Rejected]:
        """Write what each entry makes of its session, in order; return ``written``, ``redelivered``, ``duplicate``, or why not.

        All in one transaction; where one is rejected, all but that one in smaller ones. Raises ``Retryable`` or ``Broken``, and
        ``Misconfigured`` when the positions belong to another log.
        """
        return await in_halves(entries, self._stored, _refused)

    async def _stored(self, entries: Sequence[Entry]) -> Sequence[str | Rejected]:
        statuses = await self._written(entries)
        self._crash.visit("after_commit", len(entries))
        return statuses

    async def _written(self, entries: Sequence[Entry]) -> list[str]:
        async with borrowed(self._connections) as connection, transaction(connection):
            partitions = {entry.origin.partition for entry in entries}
            reached = await lock_positions(connection, "working", partitions, self._topic_identity)
            fresh: list[Entry] = []
            statuses = ["redelivered"] * len(entries)
            for place, entry in enumerate(entries):
                if entry.origin.offset > reached[entry.origin.partition]:
                    reached[entry.origin.partition] = entry.origin.offset
                    statuses[place] = "written"
                    fresh.append(entry)
            if not fresh:
                return statuses
            sessions, known = await _found(connection, fresh)
            documents = _Documents(sessions)
            for place, entry in enumerate(entries):
                name = (entry.envelope.tenant_id, entry.envelope.user_id, entry.envelope.event_id)
                if statuses[place] == "written" and name in known:
                    # The same event id at a second offset: the position moves, nothing else does.
                    statuses[place] = "duplicate"
                elif statuses[place] == "written":
                    known.add(name)
                    documents.add(entry)
            await _write(connection, documents.rows(), reached)
            self._crash.visit("in_transaction", len(entries))
        return statuses


async def _refused(_entry: Entry, error: Rejected) -> str | Rejected:
    return error


async def _found(
    connection: Connection, entries: Iterable[Entry]
) -> tuple[dict[SessionName, Session], set[tuple[str, str, str]]]:
    """Return the sessions of the entries as they stand, and which of the entries' events are known (tenant, user, event)."""
    wanted: dict[UserName, tuple[dict[str, None], list[str]]] = {}
    for entry in entries:
        sessions, events = wanted.setdefault((entry.envelope.tenant_id, entry.envelope.user_id), ({}, []))
        sessions[entry.envelope.session_id] = None
        events.append(entry.envelope.event_id)
    users = list(wanted)
    requests = [
        {"place": place, "tenant_id": user[0], "user_id": user[1], "session_ids": list(sessions), "event_ids": events}
        for place, (user, (sessions, events)) in enumerate(wanted.items())
    ]
    cursor = await connection.execute(sql("working_sessions"), {"requests": _json(requests)}, binary=True)
    found: dict[SessionName, Session] = {}
    known: set[tuple[str, str, str]] = set()
    for place, rows, event_ids in await cursor.fetchall():
        user = users[place]
        for row in msgspec.json.decode(rows or "[]", type=list[_SessionRow]):
            found[*user, row.session_id] = Session(row.state, row.sequence, row.last_event_ids, row.fields)
        known |= {(*user, event_id) for event_id in event_ids or ()}
    return found, known


class _Documents:
    """The rows of each user, in order, and the sessions as the entries so far leave them."""

    def __init__(self, sessions: dict[SessionName, Session]) -> None:
        self._sessions = sessions
        self._users: dict[UserName, dict[str, Any]] = {}

    def add(self, entry: Entry) -> None:
        """Let ``entry`` move its session; raises what its step raises."""
        envelope = entry.envelope
        user = (envelope.tenant_id, envelope.user_id)
        name = (*user, envelope.session_id)
        made = entry.step(self._sessions.get(name, Session()))
        self._sessions[name] = made.session
        rows = self._users.setdefault(user, {"history": [], "sessions": {}, "events": []})
        rows["history"].append(_history_row(entry))
        rows["sessions"][envelope.session_id] = _session_row(envelope.session_id, made)
        rows["events"].append(_event_row(made, entry.origin))

    def rows(self) -> list[dict[str, Any]]:
        """Return what the SQL function ``working_written`` reads."""
        return [
            {**rows, "tenant_id": user[0], "user_id": user[1], "sessions": list(rows["sessions"].values())}
            for user, rows in self._users.items()
        ]


async def _write(connection: Connection, documents: Sequence[dict[str, Any]], moved: Mapping[int, int]) -> None:
    names = {"documents": _json(documents), "partitions": list(moved), "offsets": list(moved.values())}
    await connection.execute(sql("working_write"), names)


def _history_row(entry: Entry) -> dict[str, Any]:
    envelope, history = entry.envelope, entry.history
    return {
        "event_id": envelope.event_id,
        "kind": envelope.kind,
        "session_id": envelope.session_id,
        "conversation_id": envelope.conversation_id,
        "channel": envelope.channel,
        "user_message": history.user_message,
        "assistant_message": history.assistant_message,
        "stated_at_ms": history.stated_at_ms,
        "received_at_ms": envelope.received_at_ms,
        "origin_partition": entry.origin.partition,
        "origin_offset": entry.origin.offset,
        "detail": Raw(history.detail.encode()),
    }


def _session_row(session_id: str, made: Step) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "state": made.session.state,
        "sequence": made.session.sequence,
        "last_event_ids": made.session.last_event_ids,
        "fields": made.session.fields or {},
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


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
