"""The contents of the memories that a turn's prompt already contained, so that they are not learned again from its answer.

Called by ``extract`` for turns that name such memories. Reads as ``engram_reader``, one user at a time; writes nothing.
"""

from schemas.ids import is_memory_id
from streams.postgres import Pool, borrowed, scoped, sql

ROLE = "engram_reader"
LIMIT = 100


class RecalledMemories:
    """Reads contents by id from the database behind ``connections``."""

    def __init__(self, connections: Pool) -> None:
        self._connections = connections

    async def contents(self, tenant_id: str, user_id: str, memory_ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return the contents of the user's own memories among the first 100 ids; raises ``Retryable`` without Postgres."""
        known = [memory_id for memory_id in memory_ids[:LIMIT] if is_memory_id(memory_id)]
        if not known:
            return ()
        names = {"tenant_id": tenant_id, "user_id": user_id, "memory_ids": known}
        async with borrowed(self._connections) as connection, scoped(connection, tenant_id, user_id):
            rows = await (await connection.execute(sql("recalled_contents"), names)).fetchall()
        return tuple(content for (content,) in rows)
