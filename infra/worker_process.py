"""One worker process from start to end: signals, heartbeat, waiting for what is away, exit code.

Called by the worker command. What a role does is in ``infra.roles``; this file only decides when the process is
ready, waiting or stopping, and how it ends.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from infra.metrics import Metrics, serving
from schemas.codec import Codec, codec_of
from schemas.errors import EngramError, Retryable
from schemas.settings import Settings
from streams.crash import CrashPoints, crash_points
from streams.delivery import exit_code, place_of
from streams.heartbeat import Heartbeat

_LONGEST_PAUSE_SECONDS = 5.0


@dataclass(slots=True)
class Here:
    """What every role of this process shares; ``stop`` is set when the process was asked to end."""

    settings: Settings
    heartbeat: Heartbeat
    crash: CrashPoints
    codec: Codec
    metrics: Metrics
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    was_ready: bool = False

    def ready(self) -> None:
        """Say that the role works; from now on a failure ends the process instead of being waited for."""
        self.was_ready = True
        self.heartbeat.set("ready")


Role = Callable[[Here], Awaitable[None]]


def here_of(settings: Settings, role: str) -> Here:
    """Return the surroundings of a role; raises ``Misconfigured`` for an unknown crash point."""
    heartbeat = Heartbeat(settings.heartbeat_file, role)
    return Here(settings, heartbeat, crash_points(settings), codec_of(settings), Metrics(heartbeat))


async def run_role(here: Here, role: Role) -> int:
    """Run ``role`` until it ends or the process is asked to; return the exit code.

    Before it was ready, a dependency that is away is waited for with the heartbeat ``waiting``; later it ends the process,
    and the supervisor starts it again. With ``ENGRAM_METRICS_PORT`` metrics and health are shown meanwhile.
    """
    with serving(here.metrics, here.settings.metrics_host, here.settings.metrics_port):
        return await _run_role(here, role)


async def _run_role(here: Here, role: Role) -> int:
    log: Any = structlog.get_logger()
    _listen_to_signals(here, log)
    beat = asyncio.create_task(here.heartbeat.run())
    pause_seconds = 0.5
    try:
        while not here.stop.is_set():
            try:
                await role(here)
            except Retryable as error:
                if here.was_ready:
                    raise
                here.heartbeat.set("waiting", str(error))
                log.warning("waiting", reason=str(error), pause_seconds=pause_seconds)
                await _pause(here.stop, pause_seconds)
                pause_seconds = min(pause_seconds * 2, _LONGEST_PAUSE_SECONDS)
            else:
                break
    except Exception as error:  # noqa: BLE001 - the outer loop of the process: every error becomes an exit code
        reason = (
            str(error) if isinstance(error, EngramError) else f"unexpected {type(error).__name__} at {place_of(error)}"
        )
        here.heartbeat.set("stopping", reason)
        # Without a trace: it can quote what the process was working on.
        log.error("ended", reason=reason, exit_code=exit_code(error))  # noqa: TRY400
        return exit_code(error)
    finally:
        beat.cancel()
    here.heartbeat.set("stopping")
    log.info("stopped")
    return 0


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


def _listen_to_signals(here: Here, log: Any) -> None:
    loop = asyncio.get_running_loop()

    def asked_to_stop() -> None:
        if here.stop.is_set():
            return
        here.stop.set()
        here.heartbeat.set("stopping")
        # A client can hang while it closes. Ending without it is safe: nothing was acknowledged that is not durable.
        loop.call_later(here.settings.stop_seconds, end_process, 0)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop)


def end_process(code: int) -> None:
    """End the process now, whatever threads are still doing."""
    os._exit(code)
