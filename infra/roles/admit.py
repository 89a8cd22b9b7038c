"""The role ``admit``: gates 1 and 2, and classes."""

import asyncio

from infra.roles.warm_up import sample_extraction
from infra.stage_process import open_keys, run_stage
from infra.worker_process import Here
from schemas.candidates import Extraction, MemoryExtracted
from schemas.settings import Settings
from streams.admit import Admit, Judge
from streams.gates.admission import admit_extraction
from streams.gates.pii import PROFILES


async def run(here: Here) -> None:
    """Run the stage until asked to stop."""
    judge = judge_of(here.settings)
    await asyncio.to_thread(admit_extraction, sample_extraction(), pending_below=here.settings.pending_confidence)
    async with open_keys(here) as keys:
        await run_stage(here, Admit(judge, here.codec, keys, here.settings))


def judge_of(settings: Settings) -> Judge:
    """Return gates and classes with the PII profile and the confidence under which a candidate waits, as ``remember`` has it."""
    policy = PROFILES[settings.pii_profile]

    def judge(extraction: Extraction, _event: MemoryExtracted) -> Extraction:
        return admit_extraction(extraction, policy=policy, pending_below=settings.pending_confidence)

    return judge
