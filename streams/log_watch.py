"""The watch over the log itself: notices that Kafka's data was thrown away or a topic made anew below a Postgres that stayed.

Offsets then mean something else: proposals would be taken for redelivered ones and dropped in silence. So every role that
writes to Postgres, publishes from it or projects it compares the ids of the topics with those Postgres first saw, at its
start and every few seconds. It never changes an id that is known.
"""

import asyncio
from collections.abc import Mapping

from schemas.errors import Misconfigured, Retryable
from schemas.settings import Settings
from streams.kafka import topic_identities
from streams.postgres import Connection, connected, sql, translated

EVERY_SECONDS = 5.0


async def known_log(settings: Settings, role: str) -> dict[str, str]:
    """Return what ``identities_here`` does, for a worker: raises ``Retryable`` too while Postgres is being made anew."""
    async with connected(settings, role) as connection:
        await check_whole(connection)
        return await identities_here(settings, connection)


async def check_whole(connection: Connection) -> None:
    """Raise ``Retryable`` while Postgres is being made anew: what is missing there is not missing, it is not folded yet."""
    with translated():
        refolding = await (await connection.execute(sql("refolding_seen"))).fetchone()
    if refolding is not None:
        raise Retryable("Postgres is being made anew from the log: wait, or run `engram rebuild postgres` to its end")


async def identities_here(settings: Settings, connection: Connection) -> dict[str, str]:
    """Return the ids of our topics, which are those that Postgres knows; a topic seen for the first time is stored.

    Raises ``Misconfigured`` when an id differs, and ``Retryable``.
    """
    found = await topic_identities(settings)
    names = {"topics": list(found), "identities": list(found.values())}
    with translated():
        await connection.execute(sql("topic_identities_write"), names)
        known = await (await connection.execute(sql("topic_identities_read"), names)).fetchall()
    check_identities(dict(known), found)
    return found


def identity_of(known: Mapping[str, str], topic: str) -> str:
    """Return the id of ``topic``, which positions in it are kept with; raises ``Retryable`` while the broker makes it."""
    if topic not in known:
        raise Retryable(f"Kafka does not show topic {topic} yet")
    return known[topic]


async def watch_log(settings: Settings, known: Mapping[str, str], *, every_seconds: float = EVERY_SECONDS) -> None:
    """Watch until cancelled; raises ``Misconfigured`` when the log is another than ``known``. A silent Kafka is no answer."""
    while True:
        await asyncio.sleep(every_seconds)
        try:
            found = await topic_identities(settings)
        except Retryable:
            continue
        check_identities(known, found)


def check_identities(known: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise ``Misconfigured`` with the first topic that is there under another id than the known one."""
    for topic in sorted(found):
        if known.get(topic, found[topic]) != found[topic]:
            raise Misconfigured(
                f"Postgres belongs to another Kafka log: topic {topic} was {known[topic]} and is {found[topic]}, so Kafka was "
                "reset or the topic was made anew; restore Kafka's data, or start with an empty database"
            )
