"""The group ``latency``: from the call of the producer to the committed memory, at a steady rate.

Called by ``write_path``. Turns are sent by the clock, whether the earlier ones are done or not. A commit is seen by Postgres'
own signal (the writer's NOTIFY, sent at commit) and one look at ``user_positions``; so a figure is late by that look, about
a millisecond, and never early. The steps between are the broker's time stamps of the records.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from bench.figures import Figure, Goal, Group, Table, percentile
from bench.ground import Ground, Usage, administrator
from bench.load import Watch, body_of, gateway, remembered, scope_of, watching
from bench.texts import TENANT, BenchTurn
from bench.topics import read_topic
from schemas.candidates import MemoryAdmitted, MemoryExtracted
from schemas.codec import Codec
from schemas.inputs import InputEnvelope
from schemas.proposals import Proposal
from schemas.settings import Settings
from schemas.topics import ADMITTED, CHAT_TURNS, EXTRACTED, PROPOSALS, Topic

TURNS_PER_SECOND = 20
GOAL_MILLISECONDS = 75
STAGES: tuple[tuple[Topic, Callable[[Codec, bytes], str], str], ...] = (
    (CHAT_TURNS, lambda codec, value: codec.decode(value, InputEnvelope).event_id, "producer to chat.turns"),
    (EXTRACTED, lambda codec, value: codec.decode(value, MemoryExtracted).event_id, "extract"),
    (ADMITTED, lambda codec, value: codec.decode(value, MemoryAdmitted).event_id, "admit"),
    (PROPOSALS, lambda codec, value: codec.decode(value, Proposal).event_id, "embed"),
)
Sent = dict[str, tuple[BenchTurn, float, float, int]]


async def measure(ground: Ground, settings: Settings, turns: Sequence[BenchTurn], load_average: float) -> Group:
    """Send the turns, 20 a second; the workers must run and be idle."""
    sent: Sent = {}
    async with watching(settings) as watch, gateway(settings) as producer:
        before, began = ground.usages(), time.perf_counter()

        async def send(number: int, turn: BenchTurn) -> None:
            await asyncio.sleep(max(0.0, began + number / TURNS_PER_SECOND - time.perf_counter()))
            at, wall = time.perf_counter(), time.time()
            receipt = await producer.send(scope_of(turn, f"latency-{number}"), body_of(turn))
            sent[f"latency-{number}"] = (turn, at, wall, receipt.position.offset)
            ground.shown.doing("latency: sending 20 turns a second", len(sent), len(turns))

        await asyncio.gather(*(send(number, turn) for number, turn in enumerate(turns)))
        last: dict[str, int] = {}
        for turn, _, _, offset in sent.values():
            last[turn.user] = max(last.get(turn.user, -1), offset)
        await remembered(watch, last)
        spent, after = time.perf_counter() - began, ground.usages()
    latencies = _latencies(sent, watch)
    made = await _that_made_memories(settings)
    kept = [milliseconds for event_id, milliseconds in latencies.items() if event_id in made]
    everything = list(latencies.values())
    method = "20 turns a second; from the call of the producer to the commit"
    figures = (
        Figure(name="turn to committed memory, p50", value=percentile(kept, 0.5), unit="ms", method=method),
        Figure(
            name="turn to committed memory, p99",
            value=percentile(kept, 0.99),
            unit="ms",
            method=method,
            goal=Goal("at_most", GOAL_MILLISECONDS),
        ),
        Figure(name="any turn, p50", value=percentile(everything, 0.5), unit="ms", method=method),
        Figure(name="any turn, p99", value=percentile(everything, 0.99), unit="ms", method=method),
    )
    table = Table("milliseconds by step", ("step", "p50", "p90", "p99"), await _steps(settings, sent, latencies))
    busy = usage_table(before, after, len(turns), spent)
    note = f"{len(everything):,} turns, {len(kept):,} of them made or changed a memory"
    return Group(name="latency", load_average=load_average, figures=figures, tables=(table, busy), notes=(note,))


def usage_table(before: Mapping[str, Usage], after: Mapping[str, Usage], turns: int, seconds: float) -> Table:
    """Return what each process used of the processor, the busiest first."""
    used = {name: after[name].cpu_seconds - before[name].cpu_seconds for name in after if name in before}
    rows = [
        (name, f"{spent / turns * 1000:.2f}", f"{spent / seconds:.2f}")
        for name, spent in sorted(used.items(), key=lambda item: -item[1])
    ]
    total = sum(used.values())
    rows.append(("all", f"{total / turns * 1000:.2f}", f"{total / seconds:.2f}"))
    return Table("processor time", ("process", "ms/turn", "cores busy"), tuple(rows))


def _latencies(sent: Sent, watch: Watch) -> dict[str, float]:
    """Return the milliseconds of each turn: to the first look at which its user was remembered up to it."""
    by_user: dict[str, list[tuple[int, float]]] = {}
    for user, offset, at in watch.seen:
        by_user.setdefault(user, []).append((offset, at))
    return {
        event_id: (next(at for reached, at in by_user[turn.user] if reached >= offset) - began) * 1000
        for event_id, (turn, began, _, offset) in sent.items()
    }


async def _that_made_memories(settings: Settings) -> set[str]:
    connection = await administrator(settings)
    try:
        cursor = await connection.execute(
            "SELECT event_id FROM command_outcomes WHERE tenant_id = %s AND cardinality(memory_ids) > 0", (TENANT,)
        )
        return {str(row[0]) for row in await cursor.fetchall()}
    finally:
        await connection.close()


async def _steps(settings: Settings, sent: Sent, latencies: dict[str, float]) -> tuple[tuple[str, ...], ...]:
    """Return percentiles of each step from the records' time stamps (whole milliseconds)."""
    codec = Codec()
    before = {event_id: wall * 1000 for event_id, (_, _, wall, _) in sent.items()}
    rows = []
    for topic, event_of, name in STAGES:
        stamps: dict[str, float] = {}
        for record in await read_topic(settings, topic):
            event_id = event_of(codec, record.value)
            if event_id in sent:
                stamps.setdefault(event_id, float(record.timestamp))
        rows.append(_row(name, [stamps[event_id] - before[event_id] for event_id in stamps]))
        before = stamps
    commits = {event_id: sent[event_id][2] * 1000 + spent for event_id, spent in latencies.items()}
    rows.append(_row("remember (with the look)", [commits[event_id] - before[event_id] for event_id in before]))
    return tuple(rows)


def _row(name: str, milliseconds: Sequence[float]) -> tuple[str, ...]:
    return (name, *(f"{max(0.0, percentile(milliseconds, share)):.1f}" for share in (0.5, 0.9, 0.99)))
