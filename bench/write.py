"""The groups ``write`` and ``memory``: turns a second through all nine workers, processor time by role, resident memory.

Called by ``write_path``.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence

from bench.embedder import embedder_seconds
from bench.figures import Figure, Goal, Group, Table
from bench.ground import Ground, Usage
from bench.load import gateway, remembered, send_all, watching
from bench.texts import BenchTurn
from infra.lag import lags
from infra.workers import ROLES, worker_name
from schemas.errors import Broken
from schemas.settings import Settings

GOAL_SHARE = 0.3
GOAL_RESIDENT_MEBIBYTES = 400
MEBIBYTE = 1024 * 1024
EMBEDDED_AT_MOST = 1_000
SETTLE_SECONDS = 300.0


async def measure(ground: Ground, settings: Settings, turns: Sequence[BenchTurn], load_average: float) -> Group:
    """Send every turn at once and wait until the last is remembered; the workers must run."""
    texts = [turn.user_message for turn in turns][:EMBEDDED_AT_MOST]
    rates = {}
    for name, batch, processes in (
        ("one by one", 1, 1),
        ("in batches of 32", 32, 1),
        ("batches, two processes", 32, 2),
    ):
        ground.shown.doing(f"the embedder alone: {name}")
        rates[name] = len(texts) / await embedder_seconds(texts, batch=batch, processes=processes)
    rate, usage, per_turn, settled = await _load(ground, settings, turns)
    figure = Figure(
        name="write path",
        value=rate,
        unit="turns/s",
        raw=rates["one by one"],
        method="first send to last commit, nine workers and all servers on the same cores; raw: the embedder alone on the "
        "user's messages, one text a call, as they come from a stream",
        goal=Goal("ratio", GOAL_SHARE),
    )
    both = Figure(
        name="write path, embedder in batches",
        value=rate,
        unit="turns/s",
        raw=max(rates["in batches of 32"], rates["batches, two processes"]),
        method="the same against the embedder in batches of 32, in one process or two, whichever is faster",
    )
    stores = Figure(
        name="until every store has it",
        value=len(turns) / settled,
        unit="turns/s",
        method="first send to nothing left to read for any worker",
    )
    notes = (f"{usage:.0%} of {cores()} cores were used", _rates(rates))
    return Group(
        name="write", load_average=load_average, figures=(figure, both, stores), tables=(per_turn,), notes=notes
    )


async def _load(ground: Ground, settings: Settings, turns: Sequence[BenchTurn]) -> tuple[float, float, Table, float]:
    """Return turns a second, the share of all cores that was used, processor time per turn, seconds until all is settled."""
    async with watching(settings) as watch, gateway(settings) as producer:
        before, began = ground.usages(), time.perf_counter()
        sending = asyncio.create_task(send_all(producer, turns, "load"))
        while not sending.done():
            await asyncio.sleep(0.2)
            ground.shown.doing("write: sending")
        sent = time.perf_counter() - began
        ground.shown.doing(f"write: {len(turns):,} turns sent in {sent:.1f} s, waiting until they are remembered")
        spent = await remembered(watch, await sending) - began
        after = ground.usages()
        settled = await _settled(settings) - began
        all_after = ground.usages()
    used = sum(after[name].cpu_seconds - before[name].cpu_seconds for name in after if name in before)
    rows = [
        (name, *_milliseconds(before, after, name, len(turns)), _milliseconds(before, all_after, name, len(turns))[0])
        for name in after
        if name in before
    ]
    rows.sort(key=lambda row: -float(row[1]))
    columns = ("process", "ms/turn to commit", "cores busy", "ms/turn until settled")
    busy = [
        (name, to_commit, f"{float(to_commit) / 1000 * len(turns) / spent:.2f}", until)
        for name, to_commit, until in rows
    ]
    total = f"{used / len(turns) * 1000:.2f}"
    table = Table("processor time", columns, (*busy, ("all", total, f"{used / spent:.2f}", "")))
    return len(turns) / spent, used / spent / cores(), table, settled


def _milliseconds(before: Mapping[str, Usage], after: Mapping[str, Usage], name: str, turns: int) -> tuple[str]:
    return (f"{(after[name].cpu_seconds - before[name].cpu_seconds) / turns * 1000:.2f}",)


def cores() -> int:
    """Return the number of cores of this machine."""
    return os.cpu_count() or 1


async def _settled(settings: Settings) -> float:
    """Return when no worker has anything left to read; raises ``Broken`` after five minutes."""
    until = time.perf_counter() + SETTLE_SECONDS
    while time.perf_counter() < until:
        if not any((await lags(settings)).values()):
            return time.perf_counter()
        await asyncio.sleep(0.3)
    raise Broken("the workers did not settle")


def _rates(rates: Mapping[str, float]) -> str:
    return "the embedder alone: " + ", ".join(f"{name} {rate:.0f} texts/s" for name, rate in rates.items())


def memory(ground: Ground, load_average: float) -> Group:
    """Return what each worker holds now, after it has worked, and at most."""
    usages = ground.usages()
    figures = tuple(
        Figure(
            name=f"{role} resident",
            value=usages[worker_name(role)].resident_bytes / MEBIBYTE,
            unit="MiB",
            method=f"at most {usages[worker_name(role)].peak_bytes / MEBIBYTE:.0f} MiB",
            goal=Goal("at_most", GOAL_RESIDENT_MEBIBYTES),
        )
        for role in ROLES
    )
    rows = tuple(
        (name, f"{usage.resident_bytes / MEBIBYTE:.0f}", f"{usage.peak_bytes / MEBIBYTE:.0f}")
        for name, usage in usages.items()
    )
    table = Table("resident memory in MiB", ("process", "now", "peak"), rows)
    return Group(name="memory", load_average=load_average, figures=figures, tables=(table,))
