"""The role ``relay``: publishes what was committed."""

from infra.worker_process import Here
from streams.kafka import ensure_topics
from streams.relay import Relay


async def run(here: Here) -> None:
    """Publish until asked to stop."""
    await ensure_topics(here.settings)
    relay = Relay(here.settings, here.codec, crash=here.crash, beat=here.heartbeat)
    here.ready()
    await relay.run(here.stop)
