"""The one door to Milvus: collections of memory vectors, one per generation, exactly one row per memory.

Called by the projector, rebuild and reconcile (through the port in ``door``) and by recall (``search``). The only file
that imports the client. Never releases a collection that readers may use, and never holds text of a memory.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import DataNotMatchException, MilvusException, ParamError

from projectors.entries import Entry, Fingerprint, Generation, Key, Store
from projectors.names import collection_name
from projectors.projection import NAME_BYTES, TAGS, MilvusRow, unit_vector
from projectors.vector_search import VectorHit, VectorQuery, expression, quoted
from schemas.digests import vector_digest
from schemas.errors import EngramError, Misconfigured, Rejected, Retryable
from schemas.settings import Settings

R = TypeVar("R")
ID_BYTES = 128
NOT_FOUND, NOT_LOADED = 100, 101
PAGE_LIMIT = 16_000
READ_BACK = 500
HEALTH_SECONDS = 3.0
CONNECT_SECONDS = 10.0
# The client pings an idle connection every ten seconds, and the lite server closes the connection for it. A process has one
# connection per server, with the options of whoever came first: every client of this project gives these.
QUIET = {"grpc.keepalive_permit_without_calls": 0, "grpc.keepalive_time_ms": 300_000}
_SHALLOW = ("memory_id", "tenant_id", "user_id", "version", "content_hash", "digest", "tombstone")
# The client logs every refused call with a traceback; the translated error says the same once.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)


class MilvusDoor:
    """A door to the server in ``settings``; connects at the first call. The blocking client runs in threads."""

    store: Store = "milvus"
    guarded: bool = True
    keeps_newer: bool = False
    buffered: bool = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_seconds = settings.store_timeout_seconds
        self._client: MilvusClient | None = None
        self._connecting = asyncio.Lock()

    async def healthy(self) -> None:
        """Return when the server answers; raises ``Retryable`` when it does not."""
        await self._call("answering", lambda client: client.list_collections(timeout=HEALTH_SECONDS))

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            client, self._client = self._client, None
            await asyncio.to_thread(client.close)

    async def prepare(self, generation: Generation) -> None:
        """Create the collection of ``generation`` if it is missing, and load it; safe to repeat, needed after a restart."""
        if not generation.revision or generation.dimension < 2:
            raise Misconfigured(f"generation {generation.number} of milvus has no embedding revision and dimension")
        name = self._name(generation)
        await self._call("preparing a collection", lambda client: self._prepare(client, name, generation.dimension))

    def _prepare(self, client: MilvusClient, name: str, dimension: int) -> None:
        if not client.has_collection(name, timeout=self._timeout_seconds):
            index = client.prepare_index_params()
            index.add_index("vector", index_type="HNSW", metric_type="COSINE", params={"M": 16, "efConstruction": 64})
            client.create_collection(
                name,
                schema=_schema(client, dimension),
                index_params=index,
                consistency_level="Bounded",
                timeout=self._timeout_seconds,
            )
        client.load_collection(name, timeout=max(60.0, self._timeout_seconds))

    async def guard_read(self, generation: Generation, keys: Sequence[Key]) -> dict[Key, Entry]:
        """Return what the guard compares with."""
        return await self.fingerprints_of(generation, keys)

    async def fingerprints_of(
        self, generation: Generation, keys: Sequence[Key], *, deep: bool = False
    ) -> dict[Key, Entry]:
        """Return the entries stored for ``keys`` ((memory_id,) each), strongly consistent."""
        if not keys:
            return {}
        name, fields = self._name(generation), _fields(deep)
        found: dict[Key, Entry] = {}
        size = READ_BACK if deep else PAGE_LIMIT
        for start in range(0, len(keys), size):
            wanted = _any_of("memory_id", [str(key[0]) for key in keys[start : start + size]])
            rows = await self._call(
                "reading fingerprints",
                lambda client, wanted=wanted: client.query(  # type: ignore[misc]
                    name,
                    filter=wanted,
                    output_fields=fields,
                    consistency_level="Strong",
                    timeout=self._timeout_seconds,
                ),
            )
            found.update((entry.key, entry) for entry in (_entry(row, generation, deep) for row in rows))
        return found

    async def write(self, generation: Generation, items: Sequence[MilvusRow], *, forced: bool = False) -> tuple[()]:
        """Write whole rows, one per memory; what is there is replaced (the guard has judged), ``forced`` or not."""
        if not items:
            return ()
        name = self._name(generation)
        rows = [plain_row(row) for row in items]
        if forced:
            # A row that stands under another user is in that user's partition, where an upsert does not look.
            ids = [row.memory_id for row in items]
            await self._call(
                "removing rows", lambda client: client.delete(name, ids=ids, timeout=self._timeout_seconds)
            )
        await self._call("writing rows", lambda client: client.upsert(name, rows, timeout=self._timeout_seconds))
        return ()

    async def flush(self, generation: Generation) -> None:
        """Seal what was written; unflushed rows are searched slowly."""
        name = self._name(generation)
        await self._call("flushing", lambda client: client.flush(name, timeout=self._timeout_seconds))

    async def fingerprints(
        self, generation: Generation, *, deep: bool = False, page: int = PAGE_LIMIT
    ) -> AsyncIterator[Entry]:
        """Yield every entry by rising memory id, one page in memory; ``deep`` digests the vectors that are really there."""
        name = self._name(generation)
        iterator = await self._call(
            "opening a key-order read",
            lambda client: client.query_iterator(
                name,
                batch_size=min(page, PAGE_LIMIT),
                filter='memory_id > ""',
                output_fields=_fields(deep),
                consistency_level="Strong",
                timeout=self._timeout_seconds,
            ),
        )
        try:
            while rows := await self._call("reading a page", lambda _: iterator.next()):
                for row in sorted(rows, key=lambda row: str(row["memory_id"])):
                    yield _entry(row, generation, deep)
        finally:
            iterator.close()

    async def count(self, generation: Generation) -> int:
        """Return the number of rows, tombstones included."""
        name = self._name(generation)
        answer = await self._call(
            "counting",
            lambda client: client.query(
                name, output_fields=["count(*)"], consistency_level="Strong", timeout=self._timeout_seconds
            ),
        )
        return int(answer[0]["count(*)"])

    async def drop(self, generation: Generation) -> None:
        """Drop the collection of ``generation``, if it is there."""
        name = self._name(generation)

        def drop(client: MilvusClient) -> None:
            if client.has_collection(name, timeout=self._timeout_seconds):
                client.drop_collection(name, timeout=self._timeout_seconds)

        await self._call("dropping a collection", drop)

    async def search(self, generation: Generation, query: VectorQuery) -> list[VectorHit]:
        """Return the nearest memories of one user, best first; ``score`` is the cosine similarity.

        Raises ``Rejected`` (``wrong_revision``, ``bad_vector``, ``bad_id``) when the query does not fit the collection, and
        ``Retryable`` when Milvus is away. Tombstones are never returned.
        """
        if query.revision != generation.revision:
            raise Rejected(
                f"the query was embedded with {query.revision}, the collection holds {generation.revision}",
                code="wrong_revision",
            )
        if len(query.vector) != generation.dimension * 4:
            raise Rejected(f"the query's vector must have {generation.dimension} values", code="bad_vector")
        name, wanted = self._name(generation), expression(query)
        vector = np.frombuffer(query.vector, dtype="<f4")

        def search(client: MilvusClient) -> Any:
            return client.search(
                name,
                data=[vector],
                anns_field="vector",
                limit=query.limit,
                filter=wanted,
                output_fields=["memory_id", "version"],
                search_params={"params": {"ef": max(100, query.limit)}},
                consistency_level="Bounded",
                timeout=self._timeout_seconds,
            )

        answer = await self._call("searching", search, collection=name)
        return [
            VectorHit(str(hit["entity"]["memory_id"]), int(hit["entity"]["version"]), float(hit["distance"]))
            for hit in answer[0]
        ]

    def _name(self, generation: Generation) -> str:
        return collection_name(self._settings.topic_prefix, generation)

    async def _connected(self) -> MilvusClient:
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(
                    MilvusClient,
                    self._settings.milvus_uri,
                    token=self._settings.milvus_token.get_secret_value(),
                    timeout=min(CONNECT_SECONDS, self._timeout_seconds),
                    grpc_options=QUIET,
                )
            return self._client

    async def _call(self, doing: str, call: Callable[[MilvusClient], R], *, collection: str = "") -> R:
        """Run ``call`` in a thread and translate errors; ``collection`` is loaded and the call repeated if it was not loaded."""
        try:
            client = await self._connected()
            try:
                return await asyncio.to_thread(call, client)
            except MilvusException as error:
                if not collection or error.code != NOT_LOADED:
                    raise
            # The server was restarted: collections are not loaded again by themselves.
            await asyncio.to_thread(client.load_collection, collection, timeout=self._timeout_seconds)
            return await asyncio.to_thread(call, client)
        except EngramError:
            raise
        except (ParamError, DataNotMatchException) as error:
            # The client's own text may quote the row; its code says enough.
            raise Rejected(f"Milvus cannot hold this while {doing}: {_named(error)}", code="bad_row") from error
        except (MilvusException, OSError, ValueError) as error:
            raise Retryable(f"Milvus failed while {doing}: {_named(error)}") from error


def _named(error: Exception) -> str:
    if not isinstance(error, MilvusException):
        return type(error).__name__
    return "the collection is not there" if error.code == NOT_FOUND else f"{type(error).__name__} {error.code}"


def _schema(client: MilvusClient, dimension: int) -> Any:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("memory_id", DataType.VARCHAR, is_primary=True, max_length=ID_BYTES)
    schema.add_field("tenant_id", DataType.VARCHAR, max_length=ID_BYTES)
    schema.add_field("user_id", DataType.VARCHAR, max_length=ID_BYTES, is_partition_key=True)
    schema.add_field("category", DataType.VARCHAR, max_length=NAME_BYTES)
    schema.add_field("tags", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=TAGS, max_length=NAME_BYTES)
    schema.add_field("status", DataType.VARCHAR, max_length=NAME_BYTES)
    schema.add_field("importance", DataType.DOUBLE)
    schema.add_field("confidence", DataType.DOUBLE)
    schema.add_field("event_time", DataType.INT64)
    schema.add_field("version", DataType.INT64)
    schema.add_field("content_hash", DataType.VARCHAR, max_length=NAME_BYTES)
    schema.add_field("digest", DataType.VARCHAR, max_length=NAME_BYTES)
    schema.add_field("tombstone", DataType.BOOL)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    return schema


def plain_row(row: MilvusRow) -> dict[str, Any]:
    """Return ``row`` as the client takes it."""
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


def _fields(deep: bool) -> list[str]:
    return [*_SHALLOW, "vector"] if deep else list(_SHALLOW)


def _any_of(name: str, ids: Iterable[str]) -> str:
    return f"{name} in {json.dumps([quoted(found) for found in ids])}"


def _entry(row: dict[str, Any], generation: Generation, deep: bool) -> Entry:
    tombstone, digest = bool(row["tombstone"]), str(row["digest"])
    if deep:
        vector = np.asarray(row["vector"], dtype="<f4")
        # A tombstone whose vector is not the constant one shows content after all.
        blank = tombstone and np.array_equal(vector, unit_vector(generation.dimension))
        digest = "" if blank else vector_digest(vector.tobytes())
    fingerprint = Fingerprint(int(row["version"]), str(row["content_hash"]), generation.revision, digest)
    return Entry(
        key=(str(row["memory_id"]),),
        tenant_id=str(row["tenant_id"]),
        user_id=str(row["user_id"]),
        fingerprint=fingerprint,
        content=not tombstone,
    )
