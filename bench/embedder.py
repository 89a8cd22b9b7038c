"""The embedder alone: texts a second in a process of its own, as the ``embed`` worker runs it.

Run as ``python -m bench.embedder BATCH``: reads a JSON list of texts, prints the seconds. Called by the group ``write``.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence

from schemas.errors import Broken


async def embedder_seconds(texts: Sequence[str], *, batch: int, processes: int) -> float:
    """Return the seconds until ``processes`` processes have embedded the texts, loading and warming up left out."""
    parts = [list(texts[number::processes]) for number in range(processes)]
    return max(await asyncio.gather(*(_one(part, batch) for part in parts)))


async def _one(texts: list[str], batch: int) -> float:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.embedder",
        str(batch),
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(json.dumps(texts).encode())
    if process.returncode:
        raise Broken(f"the embedder ended with {process.returncode}")
    return float(out)


def main(batch: int) -> None:
    """Embed what comes in, ``batch`` texts a call."""
    # numpy is loaded with the model, after the environment of this process was set.
    from streams.embedding import load_embedder  # noqa: PLC0415

    texts: list[str] = json.loads(sys.stdin.buffer.read())
    embedder = load_embedder("use")
    embedder.embed(["warm up", "预热"])
    began = time.perf_counter()
    for start in range(0, len(texts), batch):
        embedder.embed(texts[start : start + batch])
    sys.stdout.write(str(time.perf_counter() - began))


if __name__ == "__main__":
    main(int(sys.argv[1]))
