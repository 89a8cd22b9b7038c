"""The role ``extract``: turns, steps and records in, what was understood out."""

from infra.stage_process import now_ms, open_keys, run_stage
from infra.worker_process import Here
from streams.extract import Extract
from streams.understanding import Understanding


async def run(here: Here) -> None:
    """Run the stage until asked to stop."""
    async with open_keys(here) as keys:
        await run_stage(here, Extract(Understanding(here.settings), here.codec, keys, here.settings, now_ms))
