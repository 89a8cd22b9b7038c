"""The machine is worth something only if it finds mistakes: each of these is made on purpose, and must be found.

A mistake is put where it would be made: into the guard, the relay, a projector, the writer, the fold. The search has the
budget of an ordinary run, and stops at the first violation.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from model_machine import Machine
from relay_edges import OutboxInMemory
from store_in_memory import Projecting

import projectors.guard
import reconcile.diff
import streams.relay
import streams.remember
from projectors.entries import Entry
from projectors.guard import Verdict
from projectors.projection import MilvusRow, milvus_row
from reconcile.diff import Difference
from schemas.errors import EngramError
from schemas.memories import Memory
from streams.decision_draft import Draft
from streams.evolve import evolve_memory
from streams.postgres_truth import load
from streams.publication import OutboxRow, Truth

LIVES, STEPS = 200, 30
Mutant = Callable[[pytest.MonkeyPatch], None]


def the_guard_applies_older_versions(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(projectors.guard.TABLE, "older version", Verdict.APPLY)


def the_guard_drops_a_new_vector(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(projectors.guard.TABLE, "same version, same hash, other vector", Verdict.NOTHING)
    patch.setitem(projectors.guard.TABLE, "newer version", Verdict.VECTOR_ONLY)
    patch.setitem(projectors.guard.TABLE, "nothing is stored", Verdict.NOTHING)


def a_repair_is_not_recognised(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("projectors.guard.names", lambda *_: False)
    patch.setattr("projectors.batch.names", lambda *_: False)


def the_relay_publishes_a_stale_snapshot(patch: pytest.MonkeyPatch) -> None:
    truth_of = OutboxInMemory.truth_of

    async def stale(self: OutboxInMemory, rows: Sequence[OutboxRow]) -> Truth:
        known = self._pool.__dict__.setdefault("snapshots", {})
        found = await truth_of(self, rows)
        snapshots = {name: known.setdefault(name, snapshot) for name, snapshot in found.snapshots.items()}
        return dataclasses.replace(found, snapshots=snapshots)

    patch.setattr(OutboxInMemory, "truth_of", stale)


def the_relay_removes_rows_before_they_are_sent(patch: pytest.MonkeyPatch) -> None:
    prepared = streams.relay.Relay._prepared

    async def removed(self: Any, outbox: Any, rows: Sequence[OutboxRow]) -> Any:
        batch = await prepared(self, outbox, rows)
        await outbox.done(rows)
        return batch

    patch.setattr(streams.relay.Relay, "_prepared", removed)


def the_relay_sends_only_the_first_change_of_a_memory(patch: pytest.MonkeyPatch) -> None:
    def first(rows: Sequence[OutboxRow]) -> frozenset[int]:
        return frozenset(row.outbox_id for row in rows if row.aggregate_version == 1)

    patch.setattr(streams.relay, "last_of_memory", first)


def a_projector_commits_before_it_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Projecting, "commits_first", True)


def a_tombstone_is_not_projected(patch: pytest.MonkeyPatch) -> None:
    def shown(update: Any, revision: str, dimension: int) -> MilvusRow:
        row = milvus_row(update, revision, dimension)
        return dataclasses.replace(row, status="active", category="家") if row.status == "deleted" else row

    patch.setattr("projectors.mapping.milvus_row", shown)


def remember_forgets_its_position(patch: pytest.MonkeyPatch) -> None:
    in_time = streams.remember._in_time
    patch.setattr(streams.remember, "_in_time", lambda tasks, last: (in_time(tasks, last)[0], {}))


def remember_decides_a_copy_again(patch: pytest.MonkeyPatch) -> None:
    async def forgetful(connection: Any, asked: Any, **limits: Any) -> Any:
        return [dataclasses.replace(found, outcome=None) for found in await load(connection, asked, **limits)]

    patch.setattr("streams.remember.load", forgetful)


def evolve_loses_an_edge(patch: pytest.MonkeyPatch) -> None:
    def lossy(record: Any, change: Any) -> Memory:
        memory = evolve_memory(record, change)
        return msgspec.structs.replace(memory, edges=memory.edges[:1])

    patch.setattr("streams.truth_rows.evolve_memory", lossy)
    patch.setattr("streams.evolve.evolve_memory", lossy)


def what_was_forgotten_may_come_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Draft, "is_forgotten", lambda *_: False)


def the_reconciler_does_not_look_at_edges(patch: pytest.MonkeyPatch) -> None:
    difference = reconcile.diff.difference

    def blind(expected: Entry | None, observed: Entry | None) -> Difference | None:
        if expected and observed and not expected.fingerprint.revision:
            observed = dataclasses.replace(
                observed, fingerprint=observed.fingerprint._replace(digest=expected.fingerprint.digest)
            )
        return difference(expected, observed)

    patch.setattr(reconcile.diff, "difference", blind)


MUTANTS: tuple[Mutant, ...] = (
    the_guard_applies_older_versions,
    the_guard_drops_a_new_vector,
    a_repair_is_not_recognised,
    the_relay_publishes_a_stale_snapshot,
    the_relay_removes_rows_before_they_are_sent,
    the_relay_sends_only_the_first_change_of_a_memory,
    a_projector_commits_before_it_writes,
    a_tombstone_is_not_projected,
    remember_forgets_its_position,
    remember_decides_a_copy_again,
    evolve_loses_an_edge,
    what_was_forgotten_may_come_back,
    the_reconciler_does_not_look_at_edges,
)


# An old batch that is written over a newer one is rare: the long search finds it, and the suite of the guard at once.
RARE = (the_guard_applies_older_versions,)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, id=one.__name__, marks=[pytest.mark.chaos] if one in RARE else []) for one in MUTANTS],
)
def test_the_machine_finds_the_mistake(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    search = settings(
        max_examples=LIVES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, EngramError)):
        run_state_machine_as_test(Machine, settings=search)
