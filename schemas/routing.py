"""Which partition a user's records go to: Kafka's own default rule, so that producers in any language agree.

``memory.updated`` is keyed by memory but stays in its user's partition, so it is sent with an explicit partition.
"""

from aiokafka.partitioner import murmur2

from schemas.ids import routing_key


def partition_of(tenant_id: str, user_id: str, partitions: int) -> int:
    """Return the partition (0-based) of a user among ``partitions``: murmur2 of ``tenant/user``, positive, modulo."""
    return int((murmur2(routing_key(tenant_id, user_id)) & 0x7FFFFFFF) % partitions)
