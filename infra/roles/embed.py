"""The role ``embed``: vectors of masked texts, and the proposal."""

import asyncio
from contextlib import closing

from infra.stage_process import now_ms, open_keys, run_stage
from infra.worker_process import Here
from streams.embed import Embed
from streams.embedding import load_embedder
from streams.text.masking import mask


async def run(here: Here) -> None:
    """Load the model, then run the stage until asked to stop."""
    embedder = await asyncio.to_thread(load_embedder, here.settings.embedder)
    async with open_keys(here) as keys:
        stage = Embed(mask, embedder, here.codec, keys, settings=here.settings, now_ms=now_ms, crash=here.crash)
        with closing(stage):
            await stage.warm_up()
            await run_stage(here, stage)
