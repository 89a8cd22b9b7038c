"""The raw rate of Milvus: the client's upsert and flush, and nothing else.

Called by the groups ``projectors`` and ``rebuild`` with the rows that a projector wrote.
"""

import time
from collections.abc import Sequence
from typing import Any

from pymilvus import MilvusClient

from bench.recorded import Step
from projectors.milvus import QUIET
from projectors.projection import MilvusRow
from schemas.settings import Settings


def load(settings: Settings, collection: str, steps: Sequence[Step]) -> float:
    """Return the seconds for the steps into an empty collection; the rows are made before the clock runs."""
    batches = [None if step is None else [_row(item) for item in step] for step in steps]
    client = MilvusClient(settings.milvus_uri, token=settings.milvus_token.get_secret_value(), grpc_options=QUIET)
    try:
        began = time.perf_counter()
        for batch in batches:
            if batch is None:
                client.flush(collection)
            else:
                client.upsert(collection, batch)
        return time.perf_counter() - began
    finally:
        client.close()


def _row(row: MilvusRow) -> dict[str, Any]:
    return {
        "memory_id": row.memory_id,
        "tenant_id": row.tenant_id,
        "user_id": row.user_id,
        "category": row.category,
        "tags": list(row.tags),
        "status": row.status,
        "importance": row.importance,
        "confidence": row.confidence,
        "event_time": row.event_time,
        "version": row.fingerprint.version,
        "content_hash": row.fingerprint.content_hash,
        "digest": row.fingerprint.digest,
        "tombstone": row.tombstone,
        "vector": row.vector,
    }
