"""From Kafka records to changes of one store.

Called by the projector. Thin: decoding is the codec's, the shape is the projection's. What cannot be decoded comes back as
``Rejected``, in its place, and stops nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from projectors.batch import Change
from projectors.entries import Fingerprint, Generation
from projectors.projection import GraphNode, InfluxPoint, MilvusRow, influx_point, milvus_row, neo4j_node
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.memories import REPAIR_HEADER, MemoryUpdated, Repair
from schemas.topics import UPDATED, WORKING, Topic
from schemas.working import WorkingEvent, WorkingPayload

Item = TypeVar("Item")
Payload = WorkingPayload | Rejected | None
OpenPayloads = Callable[[Sequence[WorkingEvent]], Awaitable[Sequence[Payload]]]
_REPAIR = msgspec.json.Decoder(Repair)


class Record(Protocol):
    """What a mapping needs of a Kafka record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Mapping(Protocol[Item]):
    """Reads one topic for one store; ``changes`` gives one result per record, in order."""

    topic: Topic

    async def changes(self, records: Sequence[Record], generation: Generation) -> list[Change[Item] | Rejected]:
        """Return the change of each record, or why it has none; raises ``Retryable`` when keys cannot be read now."""
        ...


class MilvusMapping:
    """``memory.updated`` as rows of a collection."""

    topic: Topic = UPDATED

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    async def changes(self, records: Sequence[Record], generation: Generation) -> list[Change[MilvusRow] | Rejected]:
        """Return the row of each update."""
        return [self._change(record, generation) for record in records]

    def _change(self, record: Record, generation: Generation) -> Change[MilvusRow] | Rejected:
        try:
            update = self._codec.decode(_value(record), MemoryUpdated)
            row = milvus_row(update, generation.revision, generation.dimension)
        except Rejected as error:
            return error
        return Change((row.memory_id,), row.tenant_id, row.user_id, row.fingerprint, row, repair_of(record))


class Neo4jMapping:
    """``memory.updated`` as nodes with edges."""

    topic: Topic = UPDATED

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    async def changes(self, records: Sequence[Record], generation: Generation) -> list[Change[GraphNode] | Rejected]:
        """Return the node of each update."""
        return [self._change(record) for record in records]

    def _change(self, record: Record) -> Change[GraphNode] | Rejected:
        try:
            node = neo4j_node(self._codec.decode(_value(record), MemoryUpdated))
        except Rejected as error:
            return error
        return Change((node.memory_id,), node.tenant_id, node.user_id, node.fingerprint, node, repair_of(record))


class InfluxMapping:
    """``working.events`` as points; ``open_payloads`` unseals, and gives ``None`` where a key is destroyed."""

    topic: Topic = WORKING

    def __init__(self, codec: Codec, open_payloads: OpenPayloads) -> None:
        self._codec = codec
        self._open_payloads = open_payloads

    async def changes(self, records: Sequence[Record], generation: Generation) -> list[Change[InfluxPoint] | Rejected]:
        """Return the point of each event; the payloads of a batch are opened together."""
        events = [self._event(record) for record in records]
        sealed = [event for event in events if isinstance(event, WorkingEvent) and event.body is not None]
        opened = dict(zip(map(id, sealed), await self._open_payloads(sealed), strict=True))
        return [
            event if isinstance(event, Rejected) else _point_change(record, event, opened.get(id(event)))
            for record, event in zip(records, events, strict=True)
        ]

    def _event(self, record: Record) -> WorkingEvent | Rejected:
        try:
            return self._codec.decode(_value(record), WorkingEvent)
        except Rejected as error:
            return error


def _point_change(record: Record, event: WorkingEvent, opened: Payload) -> Change[InfluxPoint] | Rejected:
    # What stands outside a seal that cannot be opened is still true: the point is written without text.
    problem = opened if isinstance(opened, Rejected) else None
    try:
        point = influx_point(event, None if isinstance(opened, Rejected) else opened)
    except Rejected as error:
        return error
    fingerprint = Fingerprint(point.sequence, point.content_hash, "", point.event_id)
    return Change(point.key, point.tenant_id, point.user_id, fingerprint, point, repair_of(record), problem)


def repair_of(record: Record) -> Repair | None:
    """Return the repair header of a record; one that cannot be read makes an ordinary snapshot, which is never wrong."""
    for name, value in record.headers:
        if name == REPAIR_HEADER:
            try:
                return _REPAIR.decode(value)
            except (msgspec.DecodeError, msgspec.ValidationError):
                return None
    return None


def _value(record: Record) -> bytes:
    if not record.value:
        raise Rejected("the record has no value", code="empty_record")
    return bytes(record.value)
