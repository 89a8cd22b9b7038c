"""What the log says: the newest record of every memory in ``memory.updated``, as one side of the comparison.

Called by ``reconcile.run``. The topic has no order by key, so it is read whole, and one small entry per memory is kept; texts and
vectors are not. It never writes to the log: a repair goes through the outbox like every other.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from projectors.entries import Entry, Fingerprint, Key
from schemas.codec import Codec
from schemas.digests import vector_digest
from schemas.errors import Rejected, Retryable
from schemas.memories import GONE, MemoryUpdated
from schemas.settings import Settings
from schemas.topics import UPDATED
from streams.kafka import TopicPartition, consumer, end_offsets, started, translated

POLL_MS = 500
POLL_RECORDS = 1_000
READ_SECONDS = 30.0
# No memory has this version: a record that cannot be read never agrees with Postgres.
UNREADABLE = Fingerprint(-1, "unreadable")


class PublishedEntries:
    """The newest record per memory; each look reads on from where the one before ended. ``page_rows`` entries a page."""

    def __init__(self, settings: Settings, codec: Codec, page_rows: int) -> None:
        self._settings = settings
        self._codec = codec
        self._page_rows = page_rows
        self._newest: dict[str, Entry] = {}
        self._next: dict[int, int] = {}

    async def pages(self) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entry of every memory in the order of ids."""
        await self._read_on()
        names = sorted(self._newest)
        for start in range(0, len(names), self._page_rows):
            yield [self._newest[name] for name in names[start : start + self._page_rows]]

    async def of_keys(self, keys: Sequence[Key]) -> Mapping[Key, Entry]:
        """Return the entries of these memories as the log has them now."""
        await self._read_on()
        return {key: self._newest[str(key[0])] for key in keys if str(key[0]) in self._newest}

    async def _read_on(self) -> None:
        topic = UPDATED.named(self._settings.topic_prefix)
        ends = await end_offsets(self._settings, topic)
        left = {number: end for number, end in ends.items() if end > self._next.get(number, 0)}
        if not left:
            return
        async with started(consumer(self._settings, group=None)) as client:
            client.assign([TopicPartition(topic, number) for number in left])
            for number in left:
                client.seek(TopicPartition(topic, number), self._next.get(number, 0))
            until = time.monotonic() + READ_SECONDS
            while any(self._next.get(number, 0) < end for number, end in left.items()):
                if time.monotonic() > until:
                    raise Retryable(f"Kafka gave nothing more of memory.updated for {READ_SECONDS:g} s")
                async with translated("reading memory.updated"):
                    batches = await client.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
                    for partition, records in batches.items():
                        for record in records:
                            self._note(record)
                        self._next[partition.partition] = records[-1].offset + 1
                        until = time.monotonic() + READ_SECONDS
                    for partition in client.assignment():
                        # Compaction may have taken the last offsets: the position passes over them.
                        self._next[partition.partition] = await client.position(partition)

    def _note(self, record: Any) -> None:
        memory_id = (record.key or b"").decode("utf-8", "replace")
        if record.value is None:
            self._newest.pop(memory_id, None)
            return
        try:
            update = self._codec.decode(record.value, MemoryUpdated)
        except Rejected:
            known = self._newest.get(memory_id)
            scope = (known.tenant_id, known.user_id) if known else ("", "")
            self._newest[memory_id] = Entry((memory_id,), *scope, UNREADABLE)
            return
        # In the order of revisions, as Postgres gives them: one name may be the beginning of another.
        vectors = sorted(update.vectors, key=lambda vector: vector.revision)
        digests = ",".join(f"{vector.revision}:{vector_digest(vector.values)}" for vector in vectors)
        fingerprint = log_fingerprint(update.version, update.content_hash, update.status, digests)
        scope = (update.tenant_id, update.user_id)
        self._newest[memory_id] = Entry((memory_id,), *scope, fingerprint, content=update.memory is not None)


def log_fingerprint(version: int, content_hash: str, status: str, digests: str) -> Fingerprint:
    """Return what the newest record of a memory should show; ``digests`` are ``revision:digest`` of its vectors, joined."""
    return Fingerprint(version, content_hash, status, "" if status in GONE else digests)
