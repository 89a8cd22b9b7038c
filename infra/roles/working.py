"""The role ``working``: the state machine of every session."""

from contextlib import AsyncExitStack

from infra.stage_process import now_ms, open_keys, run_stage
from infra.worker_process import Here
from schemas.topics import CHAT_TURNS
from streams.kafka import cluster_identity
from streams.postgres import pool
from streams.text.masking import mask
from streams.working import Working
from streams.working_rows import ROLE, WorkingRows


async def run(here: Here) -> None:
    """Run the stage until asked to stop."""
    settings = here.settings
    async with open_keys(here) as keys, AsyncExitStack() as resources:
        identity = f"{await cluster_identity(settings)}/{CHAT_TURNS.named(settings.topic_prefix)}"
        connections = await pool(settings, ROLE, 2)
        resources.push_async_callback(connections.close)
        rows = WorkingRows(connections, identity)
        await run_stage(here, Working(mask, _is_refused, rows, here.codec, keys, settings=settings, now_ms=now_ms))
