"""What came together through one stage, so that nothing is lost: the loop body of every worker of the write path.

Handle, send every output, wait for the acknowledgements, and only then return: the caller acknowledges the inputs after
that. Nothing leaves ``deliver`` but the end of the process: an input that can never succeed becomes a dead letter and an
empty record; a dependency that is away is waited for in place, for a bounded time; anything else ends the process before
the acknowledgement, so that the inputs come again. Called by ``streams.faust_stage``; knows nothing of Faust.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias

import structlog

from schemas.codec import Codec
from schemas.errors import Broken, EngramError, Misconfigured, Rejected, Retryable
from schemas.inputs import Origin
from schemas.settings import Settings
from streams.attempts import Attempts
from streams.crash import CrashPoints
from streams.dead_letters import dead_letter, dead_output, kept_bytes
from streams.heartbeat import Heartbeat
from streams.stage import POISON, Input, Output, Stage, StageResult

EXIT_BROKEN = 70
EXIT_UNAVAILABLE = 69
EXIT_MISCONFIGURED = 78
_LONGEST_PAUSE_SECONDS = 5.0
Span: TypeAlias = tuple[int, int, int]


class Sender(Protocol):
    """Whatever sends records and waits until they are acknowledged."""

    async def send_all(self, outputs: Sequence[Output]) -> None:
        """Send in order; returns when all are acknowledged. Raises ``Retryable``, ``Rejected`` or ``Broken``."""
        ...


class Stop(Protocol):
    """Ends the process at once, without the acknowledgement of the input in flight."""

    def __call__(self, code: int, /) -> NoReturn:
        """Never return."""
        ...


def end_process(code: int, /) -> NoReturn:
    """End the process now: no clean-up that might acknowledge anything."""
    os._exit(code)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every delivery needs beside its stage."""

    settings: Settings
    codec: Codec
    sender: Sender
    attempts: Attempts
    heartbeat: Heartbeat
    crash: CrashPoints
    stop: Stop = end_process
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class Order:
    """Notices an event that was passed over: offsets of a partition are contiguous within one assignment."""

    def __init__(self) -> None:
        self._generation: int | None = None
        self._last: dict[int, int] = {}

    def check(self, generation: int | None, position: Origin) -> None:
        """Note that ``position`` comes now; raises ``Broken`` after a gap.

        Either the client passed an event over, which the restart repairs, or somebody deleted records, and then the restart
        begins behind the gap.
        """
        if generation != self._generation:
            self._generation = generation
            self._last.clear()
        last = self._last.get(position.partition)
        if last is not None and position.offset > last + 1:
            raise Broken(f"offsets {last + 1} to {position.offset - 1} of partition {position.partition} did not come")
        self._last[position.partition] = position.offset


class Delivery:
    """Runs one stage. ``counts`` has the number of inputs by status."""

    def __init__(self, stage: Stage, surroundings: Surroundings) -> None:
        self._stage = stage
        self._around = surroundings
        self._topic = stage.source.named(surroundings.settings.topic_prefix)
        # Waiting in place must end well before the group gives this member up.
        self._patience_seconds = min(30.0, surroundings.settings.max_poll_seconds / 4)
        self._log: Any = structlog.get_logger().bind(stage=stage.name)
        self._order = Order()
        self.counts: dict[str, int] = {}

    async def deliver(self, inputs: Sequence[Input], generation: int | None = None) -> None:
        """Return when every effect of the inputs is durable; ends the process when that cannot be had.

        ``generation`` is the consumer group's: within one, the offsets of a partition must be contiguous.
        """
        for group in self._groups(inputs):
            await self._deliver(group, generation)

    def _groups(self, inputs: Sequence[Input]) -> Iterator[Sequence[Input]]:
        """Keep what came together together, but for those among which is one that may have ended the process."""
        group: list[Input] = []
        for one in inputs:
            if not self._around.attempts.is_suspect(one.position.partition, one.position.offset):
                group.append(one)
                continue
            if group:
                yield group
                group = []
            yield (one,)
        if group:
            yield group

    async def _deliver(self, group: Sequence[Input], generation: int | None) -> None:
        around = self._around
        try:
            for one in group:
                self._order.check(generation, one.position)
            spans = _spans(group)
            attempt = max(around.attempts.begin(*span) for span in spans)
        except (Broken, OSError) as error:
            self._end(error, group)
        around.crash.visit("after_consume", len(group))
        try:
            await self._with_patience(group, attempt)
        except asyncio.CancelledError:
            # Whoever is cancelled here must not go on to acknowledge, so this must not leave the agent either.
            self._forget(spans)
            around.stop(0 if around.heartbeat.state == "stopping" else EXIT_BROKEN)
        except (Retryable, Broken, OSError) as error:
            self._forget(spans)
            self._end(error, group)
        except Exception as error:  # noqa: BLE001 - this is the outer loop: whatever it is, the inputs must come again
            self._end(error, group)
        around.crash.visit("before_ack", len(group))
        try:
            for partition, _, last in spans:
                around.attempts.finish(partition, last)
        except OSError as error:
            self._end(error, group)

    def _forget(self, spans: Sequence[Span]) -> None:
        for span in spans:
            self._around.attempts.forget(*span)

    async def _with_patience(self, group: Sequence[Input], attempt: int) -> None:
        deadline = time.monotonic() + self._patience_seconds
        pause_seconds = 0.0
        while True:
            try:
                await self._once(group, attempt)
            except Retryable as error:
                pause_seconds = min(max(pause_seconds * 2, error.delay_seconds), _LONGEST_PAUSE_SECONDS)
                if time.monotonic() + pause_seconds > deadline:
                    raise
                self._around.heartbeat.set("waiting", str(error))
                self._log.warning("waiting", reason=str(error), pause_seconds=pause_seconds)
                await asyncio.sleep(pause_seconds)
            else:
                if self._around.heartbeat.state == "waiting":
                    self._around.heartbeat.set("ready")
                return

    async def _once(self, group: Sequence[Input], attempt: int) -> None:
        if attempt > self._around.settings.attempts:
            outcomes: Sequence[StageResult | Rejected] = [self._poison(attempt) for _ in group]
        else:
            outcomes = await self._stage.handle(group)
        results = [await self._result(one, outcome) for one, outcome in zip(group, outcomes, strict=True)]
        try:
            await self._around.sender.send_all([output for result in results for output in result.outputs])
        except Rejected as error:
            if len(group) > 1:
                # Only one of them is to blame. What was sent already is sent again, which changes nothing downstream.
                for one in group:
                    await self._once((one,), attempt)
                return
            results = [await self._refused_by_broker(group[0], outcomes[0], error)]
        for result in results:
            self.counts[result.status] = self.counts.get(result.status, 0) + 1

    def _poison(self, attempt: int) -> Rejected:
        return Rejected(f"the input was begun {attempt - 1} times and never finished", code=POISON)

    async def _refused_by_broker(self, one: Input, outcome: StageResult | Rejected, error: Rejected) -> StageResult:
        """Put away an input whose output the broker does not take; raises ``Broken`` where that is not taken either."""
        if isinstance(outcome, Rejected):
            raise Broken(f"a refused input could not be put away: {error}") from error
        result = await self._result(one, error)
        try:
            await self._around.sender.send_all(result.outputs)
        except Rejected as second:
            raise Broken(f"a refused input could not be put away: {second}") from second
        return result

    async def _result(self, one: Input, outcome: StageResult | Rejected) -> StageResult:
        """Return what follows from ``outcome``: for an input that was refused, its empty record and its dead letter."""
        if isinstance(outcome, StageResult):
            return outcome
        position = one.position
        refusal = await self._stage.refuse(one, outcome)
        # The reason may name a limit or a field, never what a person wrote.
        self._log.warning("refused", code=outcome.code, partition=position.partition, offset=position.offset)
        if not refusal.dead:
            return refusal.result
        letter = dead_letter(
            self._stage.name,
            self._topic,
            position,
            one.message,
            outcome,
            at_ms=self._around.now_ms(),
            key=one.key,
            tenant_id=refusal.tenant_id,
            user_id=refusal.user_id,
            event_id=refusal.event_id,
            limit_bytes=kept_bytes(self._around.settings),
        )
        outputs = (dead_output(letter, self._around.codec), *refusal.result.outputs)
        return StageResult(outputs, refusal.result.status)

    def _end(self, error: Exception, group: Sequence[Input]) -> NoReturn:
        # An unexpected error's text may quote content; its type and place are enough to find it.
        reason = (
            str(error) if isinstance(error, EngramError) else f"unexpected {type(error).__name__} at {place_of(error)}"
        )
        first = group[0].position
        self._log.error(
            "stopping before the acknowledgement",
            reason=reason,
            partition=first.partition,
            offset=first.offset,
            inputs=len(group),
        )
        self._around.heartbeat.set("stopping", reason)
        self._around.stop(exit_code(error))


def _spans(group: Sequence[Input]) -> tuple[Span, ...]:
    """Return partition, first and last offset of what is in ``group``, for each partition."""
    spans: dict[int, Span] = {}
    for one in group:
        partition, offset = one.position.partition, one.position.offset
        _, first, last = spans.get(partition, (partition, offset, offset))
        spans[partition] = (partition, min(first, offset), max(last, offset))
    return tuple(spans.values())


def exit_code(error: BaseException) -> int:
    """Return the exit code of a worker that ends because of ``error``."""
    match error:
        case Misconfigured():
            return EXIT_MISCONFIGURED
        case Retryable() | OSError():
            return EXIT_UNAVAILABLE
        case _:
            return EXIT_BROKEN


def place_of(error: BaseException) -> str:
    """Return function and line where ``error`` was raised, without what it was working on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}" if trace is not None else "an unknown place"
