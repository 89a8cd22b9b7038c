"""The rows that fence a writer: how far each partition of a topic is handled, and the right to go on from there.

Called by ``remember`` and ``working`` first thing in a transaction, before any state is read, so a writer that was frozen while
its partitions moved can change nothing. Moving the rows is the last thing of the writers' own statements.
"""

from collections.abc import Iterable

from schemas.errors import Broken, Misconfigured
from streams.postgres import Connection, sql


async def lock_positions(
    connection: Connection, role: str, partitions: Iterable[int], topic_identity: str
) -> dict[int, int]:
    """Take the rows of ``partitions`` for this transaction; return the last handled offset of each (-1: none).

    ``topic_identity`` has the ids of cluster and topic (``known_log``). Raises ``Misconfigured`` when the offsets stored here
    belong to another one.
    """
    wanted = sorted(set(partitions))
    names = {"role": role, "partitions": wanted, "topic_identity": topic_identity}
    rows = await (await connection.execute(sql("positions_lock"), names)).fetchall()
    for _, known, _ in rows:
        if known != topic_identity:
            raise Misconfigured(
                f"Postgres holds positions of the Kafka topic {known}, but this is {topic_identity}, another Kafka log: Kafka was "
                "reset or the topic was made anew; restore Kafka's data, or start with an empty database"
            )
    last = {partition: offset for partition, _, offset in rows}
    if len(last) != len(wanted):
        raise Broken(f"the positions of partitions {wanted} cannot be stored")
    return last
