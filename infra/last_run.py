"""What the reconciler last found, by store, in a small file of the state directory: for metrics, which ask nobody.

Written by ``engram reconcile`` after a run over all tenants, read by the relay's metrics. It holds counts and no ids.
"""

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from reconcile.report import Report


class LastRun(msgspec.Struct, frozen=True):
    """One store at its last comparison: differences by kind (missing, stale, orphan), entries checked, milliseconds."""

    drift: dict[str, int]
    checked: int
    at_ms: int


def write_last_run(folder: Path, report: Report) -> None:
    """Note what ``report`` found; stores that it did not compare keep what is noted of them."""
    now_ms = time.time_ns() // 1_000_000
    found = {
        store.store: LastRun(
            {"missing": store.missing, "stale": store.stale, "orphan": store.orphan}, store.checked, now_ms
        )
        for store in report.stores
    }
    folder.mkdir(parents=True, exist_ok=True)
    draft = _file(folder).with_suffix(".tmp")
    draft.write_bytes(msgspec.json.encode({**read_last_run(folder), **found}))
    draft.replace(_file(folder))


def read_last_run(folder: Path) -> dict[str, LastRun]:
    """Return what is noted, by store; empty when nothing is, or when it cannot be read."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_file(folder).read_bytes(), type=dict[str, LastRun])
    return {}


def _file(folder: Path) -> Path:
    return folder / "reconcile.json"
