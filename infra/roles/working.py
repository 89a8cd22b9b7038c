"""The role ``working``: the state machine of every session."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from infra.roles.warm_up import ANSWER, TEXTS
from infra.stage_process import now_ms, open_keys, run_stage
from infra.worker_process import Here
from schemas.inputs import TurnRecorded
from schemas.settings import Settings
from schemas.topics import CHAT_TURNS
from streams.gates.gate import gate0
from streams.gates.outcome import ADMIT
from streams.gates.pii import PROFILES
from streams.kafka import ensure_topics
from streams.log_watch import identity_of, known_log
from streams.postgres import pool
from streams.text.masking import mask
from streams.working import Working
from streams.working_rows import ROLE, WorkingRows
from streams.working_signals import signal_of


async def run(here: Here) -> None:
    """Run the stage until asked to stop."""
    settings = here.settings
    await asyncio.to_thread(warm_up, settings)
    async with open_keys(here) as keys, AsyncExitStack() as resources:
        await ensure_topics(settings)
        log = await known_log(settings, ROLE)
        identity = identity_of(log, CHAT_TURNS.named(settings.topic_prefix))
        connections = await pool(settings, ROLE, 2)
        resources.push_async_callback(connections.close)
        rows = WorkingRows(connections, identity, here.crash)
        stage = Working(mask, refusal_of(settings), rows, here.codec, keys, settings=settings, now_ms=now_ms)
        await run_stage(here, stage, log=log)


def warm_up(settings: Settings) -> None:
    """Load gate 0, masking and the rules of signals."""
    is_refused = refusal_of(settings)
    for text in TEXTS:
        is_refused(text)
        signal_of(TurnRecorded(user_message=text), user_text=mask(text), answer_text=ANSWER, refused=False)


def refusal_of(settings: Settings) -> Callable[[str], bool]:
    """Return whether gate 0 refuses a text of the user, by the PII profile that ``extract`` goes by."""
    policy = PROFILES[settings.pii_profile]

    def is_refused(text: str) -> bool:
        return gate0(text, "user", policy=policy).outcome != ADMIT

    return is_refused
