"""The one door to InfluxDB: the events of sessions, one database per generation.

Called by the projector, rebuild and reconcile (through the port in ``door``). The only file that imports the client. Reads
are InfluxQL, which versions 1 and 2 both answer, streamed in chunks.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from urllib3.exceptions import HTTPError

from projectors.entries import Entry, Generation, Key, Store
from projectors.line_protocol import (
    COUNT,
    READ_EVENT,
    READ_SESSIONS,
    READ_SPAN,
    READ_TENANTS,
    READ_USERS,
    instant,
    lines,
    literal,
    session_entries,
    spans_of,
)
from projectors.names import database_name
from projectors.projection import MEASUREMENT, InfluxPoint
from schemas.errors import EngramError, Misconfigured, Rejected, Retryable
from schemas.settings import Settings

R = TypeVar("R")
STATEMENTS = 100
CHUNK_ROWS = 10_000


class InfluxDoor:
    """A door to the server in ``settings``. The blocking client runs in threads.

    Points are immutable and addressed by what they are, so a projector writes them without reading first (``guarded``).
    """

    store: Store = "influx"
    guarded: bool = False
    keeps_newer: bool = False
    buffered: bool = False

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.topic_prefix
        self._org = settings.influx_org
        self._client = InfluxDBClient(
            url=settings.influx_url,
            token=settings.influx_token.get_secret_value(),
            org=settings.influx_org,
            timeout=int(settings.store_timeout_seconds * 1000),
        )
        self._writer = self._client.write_api(write_options=SYNCHRONOUS)

    async def healthy(self) -> None:
        """Return when the server answers; raises ``Retryable`` when it does not."""
        if not await self._call("answering", self._client.ping):
            raise Retryable("InfluxDB does not answer")

    async def close(self) -> None:
        """Close the connection."""
        await asyncio.to_thread(self._client.close)

    async def prepare(self, generation: Generation) -> None:
        """Create the database of ``generation`` if it is missing; safe to repeat."""
        name = database_name(self._prefix, generation)
        await self._call("creating a database", lambda: self._create(name))

    def _create(self, name: str) -> None:
        if not self._is_second():
            list(self._query(f'CREATE DATABASE "{name}"'))
        elif self._client.buckets_api().find_bucket_by_name(name) is None:
            self._client.buckets_api().create_bucket(bucket_name=name, org=self._org)

    def _is_second(self) -> bool:
        return str(self._client.version()).lstrip("v").startswith("2")

    async def guard_read(self, generation: Generation, keys: Sequence[Key]) -> dict[Key, Entry]:
        """Return what is stored for ``keys``."""
        return await self.fingerprints_of(generation, keys)

    async def fingerprints_of(
        self, generation: Generation, keys: Sequence[Key], *, deep: bool = False
    ) -> dict[Key, Entry]:
        """Return the entries of ``keys`` (tenant, user, session, sequence, milliseconds)."""
        wanted, spans = set(keys), spans_of(keys)
        database = database_name(self._prefix, generation)
        found: dict[Key, Entry] = {}
        for start in range(0, len(spans), STATEMENTS):
            some = spans[start : start + STATEMENTS]
            statements = ";".join(READ_SPAN.format(place) for place in range(len(some)))
            parameters: dict[str, str | int] = {}
            for place, span in enumerate(some):
                names = (f"tenant_{place}", f"user_{place}", f"session_{place}", f"from_{place}", f"to_{place}")
                parameters.update(zip(names, span, strict=True))

            def read(statements: str = statements, parameters: dict[str, str | int] = parameters) -> Any:
                return list(self._sessions(database, statements, parameters))

            for place, session_id, values in await self._call("reading fingerprints", read):
                span = some[place]
                for entry in session_entries(span.tenant_id, span.user_id, session_id, values):
                    if entry.key in wanted:
                        found[entry.key] = entry
        return found

    async def write(self, generation: Generation, items: Sequence[InfluxPoint], *, forced: bool = False) -> tuple[()]:
        """Write points over what is there.

        A delete, and a ``forced`` point before it is written, removes what has its event id or stands at its time.
        """
        name = database_name(self._prefix, generation)
        kept = [point for point in items if not point.delete]
        replaced = items if forced else [point for point in items if point.delete]

        def write() -> None:
            for start in range(0, len(replaced), STATEMENTS):
                self._remove(name, replaced[start : start + STATEMENTS])
            if kept:
                self._writer.write(bucket=name, org=self._org, record=lines(kept), write_precision="ns")

        await self._call("writing points", write)
        return ()

    def _remove(self, name: str, points: Sequence[InfluxPoint]) -> None:
        statements = ";".join(READ_EVENT.format(place) for place in range(len(points)))
        parameters: dict[str, str | int] = {}
        for place, point in enumerate(points):
            parameters[f"tenant_{place}"] = point.tenant_id
            parameters[f"user_{place}"] = point.user_id
            parameters[f"event_{place}"] = point.event_id
        places = {
            (points[place], session_id, int(row[0]))
            for place, session_id, rows in self._sessions(name, statements, parameters)
            for row in rows
        }
        places |= {(point, point.session_id, point.time_ns) for point in points if not point.delete}
        second = self._is_second()
        for point, session_id, time_ns in places:
            scope = (("tenant_id", point.tenant_id), ("user_id", point.user_id), ("session_id", session_id))
            self._client.delete_api().delete(
                *instant(time_ns, second=second),
                " AND ".join([f'_measurement="{MEASUREMENT}"', *(f'{tag}="{literal(value)}"' for tag, value in scope)]),
                bucket=name,
                org=self._org,
            )

    async def flush(self, generation: Generation) -> None:
        """Do nothing: a point that was accepted is readable."""

    async def fingerprints(
        self, generation: Generation, *, deep: bool = False, page: int = 16_000
    ) -> AsyncIterator[Entry]:
        """Yield every entry by tenant, user, session, sequence and milliseconds; one session is in memory at a time."""
        database = database_name(self._prefix, generation)
        for tenant_id in await self._tag_values(database, READ_TENANTS, {}):
            users = await self._tag_values(database, READ_USERS, {"tenant_id": tenant_id})
            for start in range(0, len(users), STATEMENTS):
                some = users[start : start + STATEMENTS]
                statements = ";".join(READ_SESSIONS.format(place) for place in range(len(some)))
                parameters: dict[str, str | int] = {"tenant_id": tenant_id}
                parameters.update({f"user_{place}": user_id for place, user_id in enumerate(some)})
                sessions = self._sessions(database, statements, parameters)
                while (found := await self._call("reading a session", lambda s=sessions: next(s, None))) is not None:  # type: ignore[misc]
                    place, session_id, values = found
                    for entry in session_entries(tenant_id, some[place], session_id, values):
                        yield entry

    async def count(self, generation: Generation) -> int:
        """Return the number of points."""
        database = database_name(self._prefix, generation)

        def count() -> int:
            series = [one for answer in self._query(COUNT, database) for one in answer.get("series", ())]
            return int(series[0]["values"][0][1]) if series else 0

        return await self._call("counting", count)

    async def drop(self, generation: Generation) -> None:
        """Drop the database of ``generation``."""
        name = database_name(self._prefix, generation)
        await self._call("dropping a database", lambda: self._drop(name))

    def _drop(self, name: str) -> None:
        if not self._is_second():
            list(self._query(f'DROP DATABASE "{name}"'))
        elif (bucket := self._client.buckets_api().find_bucket_by_name(name)) is not None:
            self._client.buckets_api().delete_bucket(bucket)

    async def _tag_values(self, database: str, statement: str, parameters: dict[str, str | int]) -> list[str]:
        def read() -> list[str]:
            answers = self._query(statement, database, parameters)
            return sorted(
                {str(value[1]) for answer in answers for one in answer.get("series", ()) for value in one["values"]}
            )

        return await self._call("reading tag values", read)

    def _sessions(
        self, database: str, statements: str, parameters: dict[str, str | int]
    ) -> Iterator[tuple[int, str, list[list[Any]]]]:
        """Yield (number of the statement, session, rows) as they arrive; chunks of one session are joined."""
        pending: tuple[int, str, list[list[Any]]] | None = None
        for answer in self._query(statements, database, parameters):
            for series in answer.get("series", ()):
                place, session_id = int(answer["statement_id"]), str(series["tags"]["session_id"])
                if pending is not None and pending[:2] == (place, session_id):
                    pending[2].extend(series["values"])
                    continue
                if pending is not None:
                    yield pending
                pending = (place, session_id, list(series["values"]))
        if pending is not None:
            yield pending

    def _query(
        self, statements: str, database: str = "", parameters: dict[str, str | int] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Run InfluxQL and yield the answers of its statements, chunk by chunk."""
        form = {
            "db": database,
            "q": statements,
            "epoch": "ns",
            "params": json.dumps(parameters or {}),
            "chunked": "true",
            "chunk_size": str(CHUNK_ROWS),
        }
        response = self._client.api_client.call_api(
            "/query",
            "POST",
            header_params={"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
            post_params=list(form.items()),
            auth_settings=[],
            _return_http_data_only=True,
            _preload_content=False,
        )
        try:
            for line in response:
                for answer in json.loads(line)["results"]:
                    if "error" in answer:
                        missing = str(answer["error"]).startswith("database not found")
                        raise Retryable(f"InfluxDB {'has no such database' if missing else 'refused a statement'}")
                    yield answer
        finally:
            response.close()
            response.release_conn()

    async def _call(self, doing: str, call: Callable[[], R]) -> R:
        """Run ``call`` in a thread and translate the client's errors; the only place that knows them."""
        try:
            return await asyncio.to_thread(call)
        except EngramError:
            raise
        except ApiException as error:
            if error.status in (401, 403):
                raise Misconfigured("InfluxDB refused the token") from error
            if error.status in (400, 413, 422):
                # The answer quotes the refused line, and with it what a user said: it must not reach a plain text.
                raise Rejected(f"InfluxDB cannot hold this while {doing}: {error.status}", code="bad_point") from error
            raise Retryable(f"InfluxDB failed while {doing}: {error.status}") from error
        except (HTTPError, OSError, ValueError) as error:
            raise Retryable(f"InfluxDB failed while {doing}: {type(error).__name__}") from error
