"""The raw rate of Milvus: the client's upsert and flush, and nothing else.

Called by the groups ``projectors`` and ``rebuild`` with the rows that a projector wrote.
"""

import time
from collections.abc import Sequence

from pymilvus import MilvusClient

from bench.recorded import Step
from projectors.milvus import QUIET, plain_row
from schemas.settings import Settings


def load(settings: Settings, collection: str, steps: Sequence[Step]) -> float:
    """Return the seconds for the steps into an empty collection; the rows are made before the clock runs."""
    batches = [None if step is None else [plain_row(item) for item in step] for step in steps]
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
