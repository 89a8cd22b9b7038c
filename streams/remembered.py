"""How far a user's inputs are remembered, and waiting until one is.

Called by gateways and commands after they have sent an input, as ``engram_reader`` in the scope of one user. Never writes.
"""

import asyncio
import time

from schemas.errors import Retryable
from schemas.inputs import Origin
from schemas.settings import Settings
from streams.postgres import Connection, connect, scoped, sql

ROLE = "engram_reader"
_POLL_SECONDS = (0.005, 0.01, 0.02, 0.05)


async def remembered_up_to(connection: Connection, tenant_id: str, user_id: str) -> Origin | None:
    """Return the highest position in ``chat.turns`` whose proposal is decided for this user, ``None`` when there is none."""
    async with scoped(connection, tenant_id, user_id):
        names = {"tenant_id": tenant_id, "user_id": user_id}
        row = await (await connection.execute(sql("user_position"), names)).fetchone()
    return None if row is None else Origin(*row)


async def wait_for(settings: Settings, tenant_id: str, user_id: str, origin: Origin, *, timeout_seconds: float) -> None:
    """Return when the input at ``origin`` is remembered; raises ``Retryable`` after ``timeout_seconds``."""
    until = time.monotonic() + timeout_seconds
    connection = await connect(settings, ROLE)
    try:
        turn = 0
        while True:
            reached = await remembered_up_to(connection, tenant_id, user_id)
            if reached is not None and reached.offset >= origin.offset:
                return
            if time.monotonic() >= until:
                raise Retryable(
                    f"the input at offset {origin.offset} is not remembered after {timeout_seconds:.0f} s; it goes on in the "
                    "background"
                )
            await asyncio.sleep(_POLL_SECONDS[min(turn, len(_POLL_SECONDS) - 1)])
            turn += 1
    finally:
        await connection.close()
