"""Recall's questions to Postgres, as ``engram_reader`` and in the scope of one user: live rows, exact look-ups, listings.

Owns the SQL of the read path. Called by ``recall.arms``, ``recall.recall`` and the commands. Never writes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recall.intents import USER, Intent
from recall.live import LiveMemory
from recall.requests import Part
from schemas.errors import Rejected
from schemas.ids import is_memory_id, user_id_of_name
from schemas.memories import Edge
from streams.extraction.facts import person_by_word
from streams.postgres import Pool, borrowed, scoped, sql

ROLE = "engram_reader"
NEAR = 0.6
_FOLDER = Path(__file__).parent / "sql"


class Reader:
    """One user's view of Postgres; every call is a transaction of its own in that user's scope.

    All raise ``Rejected`` (``bad_id``) or ``Retryable`` when Postgres is away.
    """

    def __init__(self, pool: Pool, tenant_id: str, user_id: str) -> None:
        self._pool = pool
        self._tenant_id = tenant_id
        self._user_id = user_id

    async def rows(self, name: str, arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of ``sql/<name>.sql``; tenant and user are added here."""
        async with (
            borrowed(self._pool) as connection,
            scoped(connection, self._tenant_id, self._user_id) as transaction,
        ):
            cursor = await transaction.execute(
                sql(name, _FOLDER), {**arguments, "tenant_id": self._tenant_id, "user_id": self._user_id}
            )
            return await cursor.fetchall()

    async def live(self, memory_ids: Sequence[str]) -> dict[str, LiveMemory]:
        """Return the live rows of these ids; ids of other users are left out, as are ids that are none."""
        ids = [memory_id for memory_id in memory_ids if is_memory_id(memory_id)]
        found = [_live(row) for row in await self.rows("live_rows", {"ids": ids})] if ids else []
        return {memory.memory_id: memory for memory in found}

    async def by_intent(self, intent: Intent, statuses: Sequence[str], limit: int) -> list[tuple[str, Part]]:
        """Return what ``intent`` asks for: similarity 1 for the asked attributes, 0.6 for what is near."""
        arguments = {
            "attributes": list(intent.attributes),
            "categories": list(intent.categories),
            "subjects": _subjects(intent.who, self._user_id),
            "who": intent.who.lower(),
            "statuses": list(statuses),
            "limit": limit,
        }
        return [
            (memory_id, Part(arm="intent", similarity=1.0 if exact else NEAR, reason=attribute if exact else category))
            for memory_id, exact, attribute, category in await self.rows("by_intent", arguments)
        ]

    async def by_identifier(
        self, identifiers: Sequence[str], statuses: Sequence[str], limit: int
    ) -> list[tuple[str, Part]]:
        """Return memories that name one of ``identifiers``: similarity 1 as entity or value, 0.6 inside their text."""
        arguments = {
            "identifiers": list(identifiers),
            "lowered": [identifier.lower() for identifier in identifiers],
            "patterns": [f"%{_literal(identifier)}%" for identifier in identifiers],
            "statuses": list(statuses),
            "limit": limit,
        }
        return [
            (memory_id, Part(arm="exact", similarity=1.0 if exact else NEAR, reason=", ".join(identifiers)))
            for memory_id, exact in await self.rows("by_identifier", arguments)
        ]

    async def listed(
        self, *, statuses: Sequence[str] = (), categories: Sequence[str] = (), limit: int = 100
    ) -> list[LiveMemory]:
        """Return the user's memories, newest statement first; no statuses or categories means all."""
        arguments = {"statuses": list(statuses) or None, "categories": list(categories) or None, "limit": limit}
        return [_live(row) for row in await self.rows("memories_list", arguments)]

    async def memory(self, memory_id: str) -> LiveMemory:
        """Return one memory; raises ``Rejected`` (``not_found``) alike for unknown and for other people's ids."""
        found = (await self.live([memory_id])).get(memory_id)
        if found is None:
            raise Rejected(f"this user has no memory {memory_id}", code="not_found")
        return found

    async def edges(self, memory_id: str) -> list[Edge]:
        """Return the outgoing edges of one memory."""
        return [
            Edge(kind=kind, target_kind=target_kind, target_id=target_id, weight=weight)
            for kind, target_kind, target_id, weight in await self.rows("memory_edges", {"memory_id": memory_id})
        ]


def _subjects(who: str, user_id: str) -> list[str]:
    if who == USER:
        return [USER]
    words = {who, *(table[who] for table in map(person_by_word, ("zh", "en")) if who in table)}
    subjects = [f"person:{word}".lower() for word in sorted(words)]
    return [*subjects, USER] if user_id_of_name(who) == user_id else subjects


def _live(row: tuple[Any, ...]) -> LiveMemory:
    return LiveMemory(*(*row[:-1], tuple(row[-1])))


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
