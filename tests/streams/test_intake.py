"""What waits in our own queue when Faust takes a partition away: neither worked on nor waited for.

The stream and its iterator are Faust's real ones; only its consumer is replaced by what they touch of it.
"""

import asyncio
import gc
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import faust
import pytest
from faust.events import Event
from faust.types.tuples import TP, ConsumerMessage

from streams.faust_stage import Intake
from streams.stage import Input


class Gate:
    """A delivery that waits until it is let through, and keeps what it was given."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.offsets: list[list[int]] = []

    async def deliver(self, inputs: Sequence[Input], _generation: int | None = None) -> None:
        self.offsets.append([one.position.offset for one in inputs])
        await self.opened.wait()


def consumer_of() -> Any:
    found = SimpleNamespace(
        _unacked_messages=WeakSet(), _waiting_for_ack=None, _committed_offset=defaultdict(lambda: None),
        _acked_index=defaultdict(set), _acked=defaultdict(list), _n_acked=0, acked=[],
    )  # fmt: skip
    found.unacked = found._unacked_messages

    def ack(message: Any) -> None:
        message.acked = True
        found.acked.append(message.offset)
        found.unacked.discard(message)

    found.ack = ack
    return found


def message_of(offset: int, generation: int) -> ConsumerMessage:
    made = ConsumerMessage("t", 0, offset, 0.0, 0, [], None, b"v", None, tp=TP("t", 0), generation_id=generation)
    made.incref()
    return made


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["suspended", "another generation"])
async def test_what_waits_at_a_rebalance_is_neither_worked_on_nor_waited_for(tmp_path: Path, how: str) -> None:
    app = faust.App("t", broker="kafka://nowhere", store="memory://", datadir=tmp_path, autodiscover=False)
    app.consumer = consumer = consumer_of()
    app.consumer_generation_id = 1
    app.topics._acking_topics.add("t")
    app.flow_control.resume()
    gate = Gate()
    stream = app.stream(app.topic("t", value_serializer="raw", key_serializer="raw"))

    async def body() -> None:
        intake = Intake(app, gate)  # type: ignore[arg-type]
        working = asyncio.create_task(intake.run())
        try:
            async for event in stream.noack().events():
                await intake.put(event)
        finally:
            working.cancel()

    running = asyncio.create_task(body())
    await settled()
    queue = stream._next.channel.queue
    for offset in range(4):
        await queue.put(Event(app, None, b"v", {}, message_of(offset, 1)))
        await settled()
    assert gate.offsets == [[0]]
    if how == "suspended":
        app.flow_control.suspend()
        app.flow_control.clear()
    else:
        app.consumer_generation_id = 2
    gate.opened.set()
    await settled()
    gc.collect()
    # Faust lets go when this is empty.
    assert list(consumer.unacked) == []
    assert (gate.offsets, consumer.acked) == ([[0]], [0])
    app.flow_control.resume()
    app.consumer_generation_id = 2
    for offset in range(1, 4):
        await queue.put(Event(app, None, b"v", {}, message_of(offset, 2)))
    await settled()
    assert [offset for batch in gate.offsets for offset in batch] == [0, 1, 2, 3]
    assert consumer.acked == [0, 1, 2, 3]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
