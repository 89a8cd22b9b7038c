"""``engram worker ROLE``: one worker process.

An entry: reads the environment, sets up the logs, runs the role and ends with the documented exit code.
"""

import asyncio
import importlib
import os
import sys
from typing import Annotated

import typer

from infra.logs import set_up_logs
from infra.worker_process import Here, Role, end_process, here_of, run_role
from infra.workers import ROLES
from schemas.errors import Misconfigured
from schemas.settings import load_settings


def worker(
    role: Annotated[
        str, typer.Argument(help="extract, admit, embed, remember, working, relay, milvus, neo4j or influx")
    ],
) -> None:
    """Run one worker until it is asked to stop (SIGTERM or Ctrl-C). Logs are JSON lines on standard error."""
    if role not in ROLES:
        raise Misconfigured(f"there is no role {role}: use one of {', '.join(ROLES)}")
    settings = load_settings()
    set_up_logs(role)
    # A worker uses one core. More threads in the matrix library wait for each other by spinning: measured ten times the
    # processor time for a sentence vector. It must be set before numpy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A process loads what its role needs, and nothing else.
    module = importlib.import_module(f"infra.roles.{role}")
    asyncio.run(_run_and_end(here_of(settings, role), module.run))


async def _run_and_end(here: Here, role: Role) -> None:
    code = await run_role(here, role)
    sys.stdout.flush()
    sys.stderr.flush()
    # Here and now: leaving the loop would cancel an agent in the middle of an event, and Faust acknowledges that event.
    # Threads of a client that hangs must not keep the process either.
    end_process(code)
