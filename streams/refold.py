"""Makes the truth anew: folds ``memory.changes`` into an empty database, with the ids, versions, hashes and history it had.

Called by ``engram rebuild postgres``. It decides nothing and calls no model: what a change says is what holds, so a newer
``decide`` cannot rewrite the past. It publishes nothing. Killed half way it is resumed by the next run; workers wait meanwhile.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from schemas.codec import Codec
from schemas.errors import Broken, Rejected
from schemas.inputs import Sealed
from schemas.memories import Memory, MemoryChanged
from schemas.routing import partition_of
from schemas.sealing import DataKey, KeyName
from schemas.settings import Settings
from schemas.topics import CHANGES
from streams.decision_state import Needs
from streams.inputs import Keys, key_name
from streams.kafka import TopicPartition, consumer, end_offsets, started, translated
from streams.postgres import Connection, sql, transaction
from streams.postgres import translated as postgres_errors
from streams.postgres_positions import lock_positions
from streams.postgres_truth import load, write
from streams.refold_groups import (
    BODY_OF_KIND,
    Group,
    Groups,
    LowMark,
    MemoryName,
    OpenedChange,
    document_of_group,
    envelope_of,
)
from streams.sealed_records import open_record

POLL_MS = 500
POLL_RECORDS = 500
_KEPT_MEMORIES = 20_000


@dataclass(frozen=True, slots=True)
class Folded:
    """What a run did: records read and proposals folded."""

    changes: int
    proposals: int


class Refold:
    """One run; ``connection`` is that of ``engram_writer`` in autocommit mode, ``identity`` the id of ``memory.proposals``."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        keys: Keys,
        codec: Codec,
        *,
        identity: str,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._keys = keys
        self._codec = codec
        self._identity = identity
        self._progress = progress
        self._groups: dict[int, Groups] = {}
        self._marks: dict[int, LowMark] = {}
        self._kept: OrderedDict[MemoryName, Memory] = OrderedDict()
        self._changes = 0
        self._proposals = 0

    async def run(self) -> Folded:
        """Fold everything that stands in the log now; workers stay shut out until ``finish``.

        Raises ``Rejected`` (``not_empty``), ``Broken`` (a gap in the log), ``Retryable`` (a server is away).
        """
        topic = CHANGES.named(self._settings.topic_prefix)
        ends = await end_offsets(self._settings, topic)
        reached = await self._begin(sorted(ends))
        left = {number: end for number, end in ends.items() if reached.get(number, 0) < end}
        self._groups = {number: Groups() for number in ends}
        if left:
            await self._fold(topic, left, dict(reached))
        return Folded(self._changes, self._proposals)

    async def finish(self) -> None:
        """Let the workers go on."""
        await self._rows("refolding_end", {})

    async def _begin(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return how far an earlier run came, or shut the workers out; raises ``Rejected`` where there is something already."""
        ((progress, decided),) = await self._rows("refolding_read", {})
        reached = {int(number): offset for number, offset in msgspec.json.decode(progress).items()}
        if not reached and decided:
            raise Rejected(
                "Postgres is not empty: make a new database, `engram migrate` it, and fold into that", code="not_empty"
            )
        await self._rows("refolding_begin", {"partitions": list(partitions)})
        return reached

    async def _fold(self, topic: str, left: Mapping[int, int], following: dict[int, int]) -> None:
        total = sum(end - following.get(number, 0) for number, end in left.items())
        done = 0
        async with started(consumer(self._settings, group=None)) as client:
            client.assign([TopicPartition(topic, number) for number in left])
            for number in left:
                client.seek(TopicPartition(topic, number), following.get(number, 0))
            while any(following.get(number, 0) < end for number, end in left.items()):
                async with translated("reading memory.changes"):
                    batches = await client.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
                for partition, records in batches.items():
                    await self._fold_batch(partition.partition, records)
                    following[partition.partition] = records[-1].offset + 1
                    done += len(records)
                    self._progress(done, total)

    async def _fold_batch(self, partition: int, records: Sequence[Any]) -> None:
        groups = self._groups[partition]
        whole = []
        for record in records:
            try:
                change = self._codec.decode(record.value or b"", MemoryChanged)
            except Rejected as error:
                place = f"partition {partition}, offset {record.offset}"
                raise Broken(f"a record of memory.changes cannot be read ({place}): {error.reason}") from error
            self._changes += 1
            group = groups.add(record.offset, change)
            if group is not None:
                whole.append(group)
        await self._store(partition, whole, groups.resume_at(records[-1].offset + 1))
        self._proposals += len(whole)

    async def _store(self, partition: int, groups: Sequence[Group], next_offset: int) -> None:
        """Write whole groups and how far the partition is folded, in one transaction."""
        opened = await self._opened(groups)
        async with transaction(self._connection) as connection:
            reached = (await lock_positions(connection, "remember", [partition], self._identity))[partition]
            mark = self._marks.setdefault(partition, LowMark(reached))
            for group in groups:
                if group.outcome.position is not None:
                    mark.add(group.outcome.position.offset)
            await self._load(connection, groups)
            documents = []
            for group, changes in zip(groups, opened, strict=True):
                known = self._known(group)
                shard = partition_of(group.outcome.tenant_id, group.outcome.user_id, self._settings.partitions)
                document, after = document_of_group(group, changes, known, shard)
                documents.append(document)
                self._kept |= after
            await connection.execute(sql("refolding_move"), {"partition": partition, "next_offset": next_offset})
            await write(connection, documents, {partition: mark.reached})
        while len(self._kept) > _KEPT_MEMORIES:
            self._kept.popitem(last=False)

    async def _opened(self, groups: Sequence[Group]) -> list[list[OpenedChange]]:
        events = [event for group in groups for event in group.changes.values()]
        found = await self._keys.keys_of(key_name(e, e.body) for e in events if e.body is not None)
        return [[self._open(event, found) for event in group.changes.values()] for group in groups]

    def _open(self, event: MemoryChanged, keys: Mapping[KeyName, DataKey | Rejected]) -> OpenedChange:
        sealed: Sealed | None = event.body
        if sealed is None:
            return OpenedChange(event, None, "")
        key = keys[key_name(event, sealed)]
        if isinstance(key, Rejected):
            if key.code == "erased":
                return OpenedChange(event, None, "")
            raise Broken(f"change {event.event_id} does not open: {key.reason}; is this the right key store?") from key
        return OpenedChange(event, open_record(self._codec, sealed, key, BODY_OF_KIND[event.kind]), key.key_id)

    async def _load(self, connection: Connection, groups: Sequence[Group]) -> None:
        """Keep the memories that these groups change and that are not kept: a first version needs none."""
        wanted: dict[tuple[str, str], tuple[Group, dict[str, None]]] = {}
        for group in groups:
            for event in group.changes.values():
                name = (event.tenant_id, event.user_id, event.aggregate_id)
                if event.kind == "memory" and name not in self._kept:
                    wanted.setdefault(name[:2], (group, {}))[1][event.aggregate_id] = None
        asked = [(envelope_of(group), Needs(memory_ids=tuple(names))) for group, names in wanted.values()]
        for found in await load(connection, asked, similar_memories=0):
            self._kept |= {(m.tenant_id, m.user_id, m.memory_id): m for m in found.state.memories.values()}

    def _known(self, group: Group) -> dict[MemoryName, Memory]:
        names = ((e.tenant_id, e.user_id, e.aggregate_id) for e in group.changes.values() if e.kind == "memory")
        return {name: self._kept[name] for name in names if name in self._kept}

    async def _rows(self, name: str, names: Mapping[str, Any]) -> list[Any]:
        with postgres_errors():
            cursor = await self._connection.execute(sql(name), names)
            return await cursor.fetchall() if cursor.description else []
