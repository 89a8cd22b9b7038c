"""The role ``influx``: follows ``working.events`` into the history of sessions."""

from infra.projector_process import run_store
from infra.stage_process import open_keys
from infra.worker_process import Here
from projectors.influx import InfluxDoor
from projectors.mapping import InfluxMapping
from projectors.payloads import payload_opener


async def run(here: Here) -> None:
    """Project until asked to stop."""
    async with open_keys(here) as keys:
        await run_store(here, InfluxDoor(here.settings), InfluxMapping(here.codec, payload_opener(here.codec, keys)))
