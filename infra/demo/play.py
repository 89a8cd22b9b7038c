"""Plays the sample conversation as a gateway would, and waits until everything is remembered.

Called by ``engram demo``; a shell over the producer and the reader.
"""

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack

from infra.demo.conversation import Line
from schemas.inputs import Origin
from schemas.settings import Settings
from streams.key_store import KeyStore
from streams.producer import Scope, TurnProducer
from streams.remembered import wait_for

REMEMBER_SECONDS = 60.0


async def play(settings: Settings, lines: Iterable[Line], sent: Callable[[], None]) -> dict[tuple[str, str], Origin]:
    """Send every line in order and wait until all are remembered; return the last position per tenant and user."""
    last: dict[tuple[str, str], Origin] = {}
    async with AsyncExitStack() as resources:
        keys = await KeyStore.open(settings)
        resources.push_async_callback(keys.close)
        producer = await resources.enter_async_context(TurnProducer(settings, keys, name="engram-demo"))
        for line in lines:
            scope = Scope(
                tenant=line.tenant,
                user=line.user,
                session=line.session,
                event_id=line.event_id,
                device_timestamp_ms=line.at_ms,
                timezone_offset=line.timezone,
                channel="demo",
            )
            last[line.tenant, line.user] = (await producer.send(scope, line.body)).position
            sent()
    for (tenant, user), position in last.items():
        await wait_for(settings, tenant, user, position, timeout_seconds=REMEMBER_SECONDS)
    return last
