"""The sample conversation: its entries, moved in time so that it always ended yesterday.

Called by ``engram demo``. Pure but for reading the shipped file; the clock comes in as an argument.
"""

import json
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

import msgspec

from schemas.inputs import RecordReceived, StepRecorded, TurnRecorded

WEEK = timedelta(days=7)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the conversation: whose it is, when it was said (milliseconds since the epoch), and its body."""

    event_id: str
    tenant: str
    user: str
    session: str
    at_ms: int
    timezone: str
    body: TurnRecorded | StepRecorded | RecordReceived


def load(now_ms: int) -> tuple[Line, ...]:
    """Return the conversation in order of time; moved by whole weeks, so that weekdays stay what the texts say they are."""
    text = files("infra.demo").joinpath("conversation.jsonl").read_text("utf-8")
    entries = [json.loads(line) for line in text.splitlines()]
    now = datetime.fromtimestamp(now_ms / 1000).astimezone()
    last = max(_said(entry) for entry in entries)
    shift = ((now - last) // WEEK) * WEEK
    return tuple(_line(entry, shift) for entry in entries)


def _said(entry: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(entry["at"] + entry["timezone"])


def _line(entry: dict[str, Any], shift: timedelta) -> Line:
    return Line(
        event_id=entry["event_id"],
        tenant=entry["tenant"],
        user=entry["user"],
        session=entry["session"],
        at_ms=int((_said(entry) + shift).timestamp() * 1000),
        timezone=entry["timezone"],
        body=_body(entry),
    )


def _body(entry: dict[str, Any]) -> TurnRecorded | StepRecorded | RecordReceived:
    record = {"turn": TurnRecorded, "step": StepRecorded, "record": RecordReceived}[entry["kind"]]
    fields = {name: entry[name] for name in record.__struct_fields__ if name in entry}
    body: TurnRecorded | StepRecorded | RecordReceived = msgspec.convert(fields, record)
    return body
