"""The truth check: whether a memory that a store found may still be shown, by its live row.

Called by ``recall.recall`` for every candidate. Stores may lag; this decides. Pure: "now" comes in.
"""

from recall.live import LiveMemory
from recall.requests import RecallRequest

HOUR_MS = 3_600_000


def reason_to_drop(memory: LiveMemory | None, request: RecallRequest, now_ms: int) -> str:
    """Return why the memory must not be shown, as one word for counting, or an empty text when it may.

    ``None`` (the row is unknown to this user) gives ``unknown``: a foreign id and one that never was look the same.
    """
    if memory is None or (memory.tenant_id, memory.user_id) != (request.tenant_id, request.user_id):
        return "unknown"
    return _by_state(memory, request, now_ms) or _by_filter(memory, request, now_ms)


def statuses_of(request: RecallRequest) -> tuple[str, ...]:
    """Return the statuses that ``request`` may be shown."""
    tentative = ("tentative",) if request.include_tentative else ()
    past = ("superseded", "historical") if request.include_superseded else ()
    return ("active", *tentative, *past)


def _by_state(memory: LiveMemory, request: RecallRequest, now_ms: int) -> str:
    if memory.status not in statuses_of(request):
        return memory.status
    if memory.expires_at_ms is not None and memory.expires_at_ms <= now_ms:
        return "expired"
    if memory.valid_to_ms is not None and memory.valid_to_ms <= now_ms and not request.include_superseded:
        return "historical"
    return ""


def _by_filter(memory: LiveMemory, request: RecallRequest, now_ms: int) -> str:
    if request.categories and memory.category not in request.categories:
        return "category"
    if request.tags and not set(request.tags) & set(memory.tags):
        return "tag"
    since_ms = memory.stated_at_ms if memory.valid_from_ms is None else memory.valid_from_ms
    if request.max_age_hours is not None and now_ms - since_ms > request.max_age_hours * HOUR_MS:
        return "age"
    return ""
