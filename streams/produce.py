"""Hands prepared messages to Kafka as whole batches, one series of batches for each partition, and says which rows arrived.

Called by the relay with its producer. A batch costs one future, where a message sent on its own costs one each. It knows
nothing of Postgres and decides nothing about rows.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import Broken, Rejected, Retryable
from streams import kafka
from streams.publication import Message, OutboxRow

Messages = Sequence[tuple[OutboxRow, Sequence[Message]]]


@dataclass(slots=True)
class _Filled:
    """A batch of one partition, the rows that it carries, and its acknowledgement once it was handed over."""

    builder: Any
    rows: list[OutboxRow] = field(default_factory=list)
    acknowledgement: "asyncio.Future[Any] | None" = None


async def produce(producer: Any, topic_prefix: str, prepared: Messages) -> dict[int, Rejected]:
    """Send everything and wait until nothing is on its way any more, also when sending fails.

    Return the refusal of each row (by its number) of which something was refused for good. Raises ``Retryable`` when Kafka
    fails or the producer must be made anew: then nothing is known about any row.
    """
    lanes = _lanes(producer, prepared)
    filled = [batch for batches in lanes.values() for batch in batches]
    try:
        # First the first batch of each partition: a second one waits until the first has left.
        for place in range(max(map(len, lanes.values()), default=0)):
            for (topic, partition), batches in lanes.items():
                if place < len(batches):
                    name = f"{topic_prefix}{topic}"
                    async with kafka.translated(f"sending to {name}"):
                        batch = batches[place]
                        batch.acknowledgement = await producer.send_batch(batch.builder, name, partition=partition)
    finally:
        await asyncio.gather(
            *(batch.acknowledgement for batch in filled if batch.acknowledgement is not None), return_exceptions=True
        )
    refused: dict[int, Rejected] = {}
    for batch in filled:
        try:
            async with kafka.translated("waiting for acknowledgements"):
                if batch.acknowledgement is not None:
                    batch.acknowledgement.result()
        except Rejected as error:
            refused |= {row.outbox_id: error for row in batch.rows}
        except Broken as error:
            # The client lost its sequence; with a new one everything is sent again.
            raise Retryable(str(error)) from error
    return refused


def _lanes(producer: Any, prepared: Messages) -> dict[tuple[str, int], list[_Filled]]:
    """Return the batches of each topic and partition, in the order of the rows."""
    lanes: dict[tuple[str, int], list[_Filled]] = {}
    for row, messages in prepared:
        for message in messages:
            lane = lanes.setdefault((message.topic.name, message.partition), [])
            if not lane or not _append(lane[-1], message):
                lane.append(_Filled(producer.create_batch()))
                # A batch takes its first message whatever its size.
                _append(lane[-1], message)
            lane[-1].rows.append(row)
    return lanes


def _append(batch: _Filled, message: Message) -> bool:
    """Return whether the message still fits."""
    return (
        batch.builder.append(timestamp=None, key=message.key, value=message.value, headers=list(message.headers))
        is not None
    )
