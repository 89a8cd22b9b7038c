"""The role ``extract``: turns, steps and records in, what was understood out."""

import asyncio
from contextlib import AsyncExitStack

from infra.roles.warm_up import ANSWER, STATED_AT_MS, TEXTS
from infra.stage_process import now_ms, open_keys, run_stage
from infra.worker_process import Here
from streams.extract import Extract
from streams.extraction.inputs import TurnInput
from streams.extraction.pipeline import extract
from streams.gates.pii import PROFILES
from streams.postgres import pool
from streams.recalled import ROLE, RecalledMemories
from streams.understanding import Understanding


async def run(here: Here) -> None:
    """Run the stage until asked to stop."""
    settings = here.settings
    await asyncio.to_thread(warm_up)
    async with open_keys(here) as keys, AsyncExitStack() as resources:
        connections = await pool(settings, ROLE, 2)
        resources.push_async_callback(connections.close)
        understanding = Understanding(settings.tenant_timezone_offset, policy=PROFILES[settings.pii_profile])
        recalled = RecalledMemories(connections)
        await run_stage(
            here, Extract(understanding, recalled, here.codec, keys, settings=settings, now_ms=now_ms, crash=here.crash)
        )


def warm_up() -> None:
    """Load gate 0, the noise filter, the extractor's rules and the libraries that read times."""
    for text in TEXTS:
        extract(TurnInput(event_id="warm-up", user_message=text, assistant_message=ANSWER, stated_at_ms=STATED_AT_MS))
