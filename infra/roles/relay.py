"""The role ``relay``: publishes what was committed."""

from infra.relay_watch import watch_relay
from infra.stage_process import first_of
from infra.worker_process import Here
from streams.kafka import ensure_topics
from streams.log_watch import known_log, watch_log
from streams.postgres_outbox import ROLE
from streams.relay import Relay


async def run(here: Here) -> None:
    """Publish until asked to stop."""
    await ensure_topics(here.settings)
    log = await known_log(here.settings, ROLE)
    relay = Relay(here.settings, here.codec, crash=here.crash, beat=here.heartbeat)
    here.ready()
    watchdog = watch_relay(here, lambda: relay.published, patience_seconds=here.settings.max_poll_seconds / 2)
    await first_of(relay.run(here.stop), watch_log(here.settings, log), watchdog)
