"""The role ``admit``: gates 1 and 2, and classes."""

import asyncio

from infra.roles.warm_up import sample_extraction
from infra.stage_process import open_keys, run_stage
from infra.worker_process import Here
from schemas.candidates import Extraction, MemoryExtracted
from streams.admit import Admit
from streams.gates.admission import admit_extraction


async def run(here: Here) -> None:
    """Run the stage until asked to stop."""
    await asyncio.to_thread(admit_extraction, sample_extraction())
    async with open_keys(here) as keys:
        await run_stage(here, Admit(_judge, here.codec, keys, here.settings))


def _judge(extraction: Extraction, _event: MemoryExtracted) -> Extraction:
    return admit_extraction(extraction)
