"""A consumer outside Engram: prints every change of memory, once, and goes on where it stopped.

Run it with the settings of your stack in the environment: ``python examples/print_changes.py [GROUP]``; Ctrl-C ends it.
"""

import asyncio
import sys

from schemas.settings import load_settings
from streams.updates import MemoryUpdates


async def main(group: str) -> None:
    """Print one line for each change; the next change is asked for when this one is done."""
    async with MemoryUpdates(load_settings(), group) as updates:
        async for change in updates:
            says = change.memory.content if change.memory else ""
            print(
                f"{change.tenant_id}/{change.user_id} {change.op} v{change.version} {change.memory_id} {says}",
                flush=True,
            )


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "example-printer"))
    except KeyboardInterrupt:
        sys.exit(0)
