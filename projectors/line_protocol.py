"""InfluxDB's texts: points as lines, InfluxQL answers as entries, times as RFC 3339.

Called by the door to InfluxDB. Pure.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from projectors.entries import Entry, Fingerprint, Key
from projectors.projection import MEASUREMENT, SEQUENCES, InfluxPoint

NANOSECONDS = 1_000_000_000
READ_SESSIONS = (
    f"SELECT event_id, content_hash FROM {MEASUREMENT} "  # noqa: S608 - the measurement is a constant
    "WHERE tenant_id = $tenant_id AND user_id = $user_{0} GROUP BY session_id"
)
READ_SPAN = (
    f"SELECT event_id, content_hash FROM {MEASUREMENT} "  # noqa: S608 - the measurement is a constant
    "WHERE tenant_id = $tenant_{0} AND user_id = $user_{0} AND session_id = $session_{0} "
    "AND time >= $from_{0} AND time <= $to_{0} GROUP BY session_id"
)
READ_EVENT = (
    f"SELECT event_id, content_hash FROM {MEASUREMENT} "  # noqa: S608 - the measurement is a constant
    "WHERE tenant_id = $tenant_{0} AND user_id = $user_{0} AND event_id = $event_{0} GROUP BY session_id"
)
READ_TENANTS = f"SHOW TAG VALUES FROM {MEASUREMENT} WITH KEY = tenant_id"
READ_USERS = f"SHOW TAG VALUES FROM {MEASUREMENT} WITH KEY = user_id WHERE tenant_id = $tenant_id"
COUNT = f"SELECT count(event_id) FROM {MEASUREMENT}"  # noqa: S608 - the measurement is a constant
_TAG = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ "})
_FIELD = str.maketrans({'"': r"\"", "\\": r"\\"})


class Span(NamedTuple):
    """The stretch of one session in which the wanted points lie, in nanoseconds, both ends included."""

    tenant_id: str
    user_id: str
    session_id: str
    from_ns: int
    to_ns: int


def lines(points: Iterable[InfluxPoint]) -> bytes:
    """Return the points as line protocol; every point has every field, so a second writing leaves nothing of the first."""
    return "\n".join(map(_line, points)).encode()


def _line(point: InfluxPoint) -> str:
    return (
        f"{MEASUREMENT},event_type={point.event_type.translate(_TAG)},session_id={point.session_id.translate(_TAG)},"
        f"tenant_id={point.tenant_id.translate(_TAG)},user_id={point.user_id.translate(_TAG)} "
        f'content_hash="{point.content_hash.translate(_FIELD)}",event_id="{point.event_id.translate(_FIELD)}",'
        f'fields="{point.fields.translate(_FIELD)}",masked_input="{point.masked_input.translate(_FIELD)}",'
        f'state_from="{point.state_from.translate(_FIELD)}",state_to="{point.state_to.translate(_FIELD)}" '
        f"{point.time_ns}"
    )


def spans_of(keys: Iterable[Key]) -> list[Span]:
    """Return, per session, the span that covers its keys."""
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for tenant_id, user_id, session_id, sequence, occurred_at_ms in keys:
        session = (str(tenant_id), str(user_id), str(session_id))
        time_ns = int(occurred_at_ms) * SEQUENCES + int(sequence)
        first, last = found.get(session, (time_ns, time_ns))
        found[session] = (min(first, time_ns), max(last, time_ns))
    return [Span(*session, first, last) for session, (first, last) in found.items()]


def session_entries(tenant_id: str, user_id: str, session_id: str, values: Sequence[Sequence[Any]]) -> list[Entry]:
    """Return the entries of one session's rows (time_ns, event_id, content_hash), in key order.

    Two points of other event types at one time are one entry with both hashes, which equals no truth.
    """
    found: dict[Key, tuple[str, str]] = {}
    for time_ns, event_id, content_hash in values:
        key = (tenant_id, user_id, session_id, time_ns % SEQUENCES, time_ns // SEQUENCES)
        shown = (str(event_id or ""), str(content_hash or ""))
        known = found.get(key)
        found[key] = shown if known is None else (known[0], f"{known[1]}+{shown[1]}")
    return [
        Entry(key, tenant_id, user_id, Fingerprint(int(key[3]), content_hash, "", event_id))
        for key, (event_id, content_hash) in sorted(found.items())
    ]


def literal(text: str) -> str:
    """Return ``text`` inside a quoted literal of a delete predicate."""
    return text.translate(_FIELD)


def instant(time_ns: int, *, second: bool) -> tuple[str, str]:
    """Return start and stop of a delete that removes what stands at ``time_ns`` and nothing else.

    InfluxDB 1 leaves the stop out; InfluxDB 2 (``second``) takes it in, and the next event of a session in the same
    millisecond stands one nanosecond later.
    """
    return rfc3339(time_ns), rfc3339(time_ns if second else time_ns + 1)


def rfc3339(time_ns: int) -> str:
    """Return the time with nanoseconds in UTC."""
    seconds, rest = divmod(time_ns, NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
