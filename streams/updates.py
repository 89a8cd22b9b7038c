"""The consumer for other services: every change of memory, typed, in order, each version once.

Public contract: ``memory.updated`` with the ``MemoryUpdated`` schema. Resumes where its group left off; commits a change only
after the caller came back for the next one, so a crash repeats at most the change in hand.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import structlog

from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.memories import MemoryUpdated
from schemas.settings import Settings
from schemas.topics import UPDATED
from streams.kafka import AIOKafkaConsumer, TopicPartition, consumer, started, translated, try_commit

_REMEMBERED_VERSIONS = 100_000
_COMMIT_EVERY = 100


class MemoryUpdates:
    """An asynchronous context manager and iterator over the changes of all memories.

    ``group`` names the service: each group gets every change, members of one group share them. A group that is new begins
    at the beginning: the topic has the newest state of every memory, so a service can build its own view from it.
    """

    def __init__(self, settings: Settings, group: str, *, codec: Codec | None = None) -> None:
        self._settings = settings
        self._group = group
        self._codec = codec or Codec()
        self._resources = AsyncExitStack()
        self._client: AIOKafkaConsumer | None = None
        self._versions: OrderedDict[str, int] = OrderedDict()
        self._done: dict[TopicPartition, int] = {}
        self._since_commit = 0
        self._log: Any = structlog.get_logger().bind(group=group)
        self.skipped = 0

    async def __aenter__(self) -> Self:
        """Connect; raises ``Retryable`` when Kafka is away."""
        topic = UPDATED.named(self._settings.topic_prefix)
        self._client = await self._resources.enter_async_context(
            started(consumer(self._settings, topic, group=self._group))
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit what the caller has finished, and disconnect."""
        try:
            if self._client is not None:
                await self._commit(self._client)
        finally:
            self._client = None
            await self._resources.aclose()

    async def __aiter__(self) -> AsyncIterator[MemoryUpdated]:
        """Yield changes for ever; raises ``Retryable`` or ``Broken`` when Kafka is lost.

        A record that cannot be read is counted in ``skipped`` and logged with its position: one bad record does not stop the
        service.
        """
        client = self._client
        if client is None:
            raise RuntimeError("use MemoryUpdates as an asynchronous context manager")
        while True:
            async with translated("reading memory.updated"):
                batches = await client.getmany(timeout_ms=500, max_records=500)
            for partition, messages in batches.items():
                for message in messages:
                    update = self._decoded(message)
                    if update is not None and self._is_new(update):
                        yield update
                    # The caller came back: the change before is done.
                    self._done[partition] = message.offset + 1
                    self._since_commit += 1
                    if self._since_commit >= _COMMIT_EVERY:
                        await self._commit(client)
            await self._commit(client)

    def _decoded(self, message: Any) -> MemoryUpdated | None:
        try:
            return self._codec.decode(message.value or b"", MemoryUpdated)
        except Rejected as error:
            self.skipped += 1
            self._log.warning("skipped", code=error.code, partition=message.partition, offset=message.offset)
            return None

    def _is_new(self, update: MemoryUpdated) -> bool:
        # New vectors come with the version unchanged; they are a change of their own.
        known = self._versions.get(update.memory_id, 0)
        if update.op != "revectored" and update.version <= known:
            return False
        self._versions[update.memory_id] = max(known, update.version)
        self._versions.move_to_end(update.memory_id)
        while len(self._versions) > _REMEMBERED_VERSIONS:
            self._versions.popitem(last=False)
        return True

    async def _commit(self, client: AIOKafkaConsumer) -> None:
        if not self._done:
            return
        owned = {partition: offset for partition, offset in self._done.items() if partition in client.assignment()}
        await try_commit(client, owned)
        self._done.clear()
        self._since_commit = 0
