"""Names of what belongs to a generation: collections, databases, graph marks, consumer groups.

Pure. The topic prefix goes into every name, so that a test or a second installation on the same servers owns its data.
"""

import re

from projectors.entries import Generation

_OUTSIDE = re.compile(r"[^A-Za-z0-9_]")


def collection_name(prefix: str, generation: Generation) -> str:
    """Return the Milvus collection: ``memories_<revision>_g<n>``; the number alone makes it unique."""
    revision = _OUTSIDE.sub("_", generation.revision)[:100]
    return f"{_sanitised(prefix)}memories_{revision}_g{generation.number}"


def database_name(prefix: str, generation: Generation) -> str:
    """Return the InfluxDB database: ``engram_g<n>``."""
    return f"{_sanitised(prefix)}engram_g{generation.number}"


def graph_mark(prefix: str, generation: Generation) -> str:
    """Return the value of the property ``generation`` in Neo4j: ``g<n>``."""
    return f"{_sanitised(prefix)}g{generation.number}"


def group_name(prefix: str, generation: Generation) -> str:
    """Return the consumer group of this generation's projector."""
    return f"{prefix}projector.{generation.store}.g{generation.number}"


def _sanitised(prefix: str) -> str:
    return _OUTSIDE.sub("_", prefix) if prefix else ""
