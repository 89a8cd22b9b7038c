"""A worker whose stage hangs at its first input of the life that its environment says, as code that waits for ever would."""

import asyncio
import os
from collections.abc import Sequence

from infra.commands.worker import _run_and_end
from infra.logs import set_up_logs
from infra.stage_process import run_stage
from infra.worker_process import Here, here_of
from schemas.errors import Rejected
from schemas.settings import load_settings
from schemas.topics import CHAT_TURNS, Topic
from streams.stage import Input, Refusal, StageResult


class Hanging:
    """Takes everything and, with ``HANG`` in the environment, finishes nothing."""

    name = "hanging"
    source: Topic = CHAT_TURNS

    async def handle(self, inputs: Sequence[Input]) -> list[StageResult | Rejected]:
        if os.environ.get("HANG"):
            await asyncio.Event().wait()
        return [StageResult(status="done") for _ in inputs]

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        return Refusal(StageResult(status="rejected"), dead=False)


async def run(here: Here) -> None:
    await run_stage(here, Hanging())


if __name__ == "__main__":
    set_up_logs("hanging")
    asyncio.run(_run_and_end(here_of(load_settings(), "hanging"), run))
