"""The group ``reconcile``: seconds and peak memory of a comparison, one process a store.

Called by ``stores``. Run as ``python -m bench.reconcile STORE [--deep]`` it is that process: an entry that reads the
environment, compares, and prints one JSON object.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack

from bench.figures import Figure, Goal, Group
from bench.ground import usage_of, variables_of
from bench.projectors import answering
from bench.show import Shown
from projectors.doors import open_door
from projectors.entries import STORES, Store
from reconcile.run import Options, reconcile
from schemas.errors import Broken
from schemas.settings import Settings, load_settings

GOAL_SECONDS = 5.0
MEBIBYTE = 1024 * 1024


async def measure(settings: Settings, rows: int, shown: Shown, load_average: float) -> Group:
    """Compare every store with Postgres, and Milvus deeply as well; the stores must be complete."""
    figures: list[Figure] = []
    notes: list[str] = []
    for store, deep in [*((store, False) for store in STORES), ("milvus", True)]:
        name = f"{store} deep" if deep else store
        shown.doing(f"reconcile: {name}")
        found = await _in_a_process(settings, store, deep=deep)
        if found["checked"] < rows or found["differences"]:
            raise Broken(f"{name}: {found['checked']} entries checked, {found['differences']} differences")
        figures.append(
            Figure(
                name=f"{name} compared",
                value=found["seconds"],
                unit="s",
                method="both sides read in key order and merged, without the start of the process",
                goal=None if deep else Goal("at_most", GOAL_SECONDS),
            )
        )
        figures.append(Figure(name=f"{name} peak memory", value=found["peak_bytes"] / MEBIBYTE, unit="MiB"))
        notes.append(
            f"{name}: {found['checked']:,} entries, 0 differences, {found['process_seconds']:.1f} s with start"
        )
    return Group(name="reconcile", load_average=load_average, figures=tuple(figures), notes=tuple(notes))


async def _in_a_process(settings: Settings, store: str, *, deep: bool) -> dict[str, float]:
    command = (sys.executable, "-m", "bench.reconcile", store, *(("--deep",) if deep else ()))
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **variables_of(settings)}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise Broken(f"the comparison of {store} ended with {process.returncode}")
    found: dict[str, float] = json.loads(out)
    return found


async def _compare(settings: Settings, store: Store, *, deep: bool) -> dict[str, float]:
    began = time.perf_counter()
    async with AsyncExitStack() as resources:
        door = open_door(settings, store)
        resources.push_async_callback(door.close)
        # Connected before, as by a command that has more than one store to compare.
        await answering(door)
        report = (await reconcile(settings, {store: door}, Options(deep=deep))).stores[0]
    return {
        "checked": report.checked,
        "differences": report.missing + report.stale + report.orphan,
        "seconds": report.seconds,
        "process_seconds": time.perf_counter() - began,
        "peak_bytes": usage_of(os.getpid()).peak_bytes,
    }


def main(arguments: list[str]) -> None:
    """Compare one store and print what came out."""
    store = next(known for known in STORES if known == arguments[0])
    found = asyncio.run(_compare(load_settings(), store, deep="--deep" in arguments))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
