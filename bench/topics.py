"""Reads whole topics: what a relay sent, what a projector reads.

Called by the groups.
"""

from typing import Any

from schemas.settings import Settings
from schemas.topics import Topic
from streams.kafka import TopicPartition, consumer, end_offsets, started

POLL_ROWS = 5_000


async def read_topic(settings: Settings, topic: Topic) -> list[Any]:
    """Return every record of a topic (as the client gives it), in order per partition."""
    name = topic.named(settings.topic_prefix)
    ends = {number: end for number, end in (await end_offsets(settings, name)).items() if end}
    found: list[Any] = []
    if not ends:
        return found
    async with started(consumer(settings, group=None)) as client:
        partitions = [TopicPartition(name, number) for number in ends]
        client.assign(partitions)
        await client.seek_to_beginning(*partitions)
        while len(found) < sum(ends.values()):
            for records in (await client.getmany(timeout_ms=1000, max_records=POLL_ROWS)).values():
                found += records
    return found
