"""What stands on a topic, read from the beginning to its end."""

from collections.abc import Sequence

from schemas.settings import Settings
from schemas.topics import Topic
from streams.kafka import TopicPartition, consumer, end_offsets, started

Record = tuple[int, bytes, bytes, dict[str, bytes]]


async def records_of(settings: Settings, topic: Topic) -> Sequence[Record]:
    """Return (partition, key, value, headers) of every record, in order per partition."""
    name = topic.named(settings.topic_prefix)
    ends = {TopicPartition(name, p): end for p, end in (await end_offsets(settings, name)).items() if end}
    found: list[Record] = []
    if not ends:
        return found
    async with started(consumer(settings, group=None)) as client:
        client.assign(list(ends))
        await client.seek_to_beginning(*ends)
        while any([await client.position(partition) < end for partition, end in ends.items()]):
            for partition, records in (await client.getmany(timeout_ms=500)).items():
                found += [(partition.partition, r.key, r.value, dict(r.headers)) for r in records]
    return found
