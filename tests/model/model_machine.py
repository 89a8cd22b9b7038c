"""The state machine: anything may be said, asked, delivered twice, killed, rebuilt, damaged; then every law must hold."""

import asyncio
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from model_audit import audits, compared, enqueue
from model_damage import Drifted, damage
from model_fold import Oracle
from model_inputs import DAMAGES, FAULTS, KINDS, REFUSAL, facts, few, moves, numbers, users
from model_laws import check
from model_system import EVERYTHING, PARTITIONS, System, User
from truth_world import asked, said

from projectors.entries import STORES
from schemas.candidates import Candidate
from schemas.ids import derived_id
from schemas.memories import Memory, PendingEntry, ReviewEntry
from schemas.topics import UPDATED
from streams.changes import DecodedProposal

Move = tuple[str, Any, int, int]
stores = st.sampled_from(STORES)


def _has_turns(machine: "Machine") -> bool:
    return bool(machine.turns)


later = precondition(_has_turns)
"""Before anybody said anything there is little to do, to break or to find."""


class Machine(RuleBasedStateMachine):
    """One life of the system; ``teardown`` lets it come to rest and checks everything."""

    def __init__(self) -> None:
        super().__init__()
        self.system = System()
        self.oracle = Oracle()
        self.drifted: Drifted = set()
        self.number = 0
        self.turns: list[DecodedProposal] = []

    # What people say and ask

    @rule(user=users, told=st.lists(facts(), max_size=3), late=st.integers(0, 3), refused=st.booleans())
    def somebody_says(self, user: User, told: list[Candidate], late: int, refused: bool) -> None:
        number = self._next()
        refusals = (REFUSAL,) if refused else ()
        at_ms = self.system.now_ms
        proposal = said(number, *told, refusals=refusals, **_scope(user), stated_at_ms=at_ms - late * 60_000)
        self.turns.append(self.system.say(proposal))

    @rule(user=users, turns=st.lists(st.lists(facts(), min_size=1, max_size=2), min_size=2, max_size=5))
    def somebody_tells_a_lot(self, user: User, turns: list[list[Candidate]]) -> None:
        for told in turns:
            self.somebody_says(user=user, told=told, late=0, refused=False)

    @later
    @rule(pick=numbers, same_revision=st.booleans())
    def a_turn_comes_twice(self, pick: int, same_revision: bool) -> None:
        """The gateway sends a turn again; a newer embedder makes another proposal of it."""
        first = self.turns[pick % len(self.turns)]
        envelope = first.envelope
        if not same_revision:
            again = derived_id("again", envelope.proposal_id)
            envelope = msgspec.structs.replace(envelope, proposal_id=again)
        self.system.say(DecodedProposal(envelope, first.body))

    @later
    @rule(user=users, kind=st.sampled_from(KINDS), pick=numbers, twice=st.booleans(), expects=st.booleans())
    def somebody_asks(self, user: User, kind: str, pick: int, twice: bool, expects: bool) -> None:
        """A command goes straight to the proposals and overtakes what is still on its way."""
        name, version = self._target(user, pick)
        expected = {name: version} if name and expects and version else {}
        proposal = asked(
            self._next(), kind, *([name] if name else []), expected=expected, value='"广州"', to_version=1 + pick % 2
        )
        self._propose(user, proposal, 1 + twice)

    @later
    @rule(user=users, ago=st.integers(0, 5))
    def a_whole_user_is_forgotten(self, user: User, ago: int) -> None:
        number = self._next()
        before_ms = self.system.now_ms - ago * 60_000
        self._propose(user, asked(number, "forget", whole_user=True, before_ms=before_ms), 1)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def nonsense_arrives(self, partition: int) -> None:
        self.system.garbage(partition)

    @rule(user=users, text=st.sampled_from(("退款", "where is my order?")))
    def a_session_goes_on(self, user: User, text: str) -> None:
        self._next()
        self.system.happen(user, "s1", text)

    @later
    @rule(user=users, pick=numbers, whole=st.sampled_from((False, False, False, True)))
    def keys_are_destroyed(self, user: User, pick: int, whole: bool) -> None:
        known = self.system.keys.known(*user)
        if known:
            chosen = known if whole else [known[pick % len(known)]]
            self.system.run(self.system.keys.destroy_keys(*user, chosen))

    # What processes do, and how they fail

    @later
    @rule(steps=st.lists(moves, min_size=1, max_size=10))
    def processes_work(self, steps: list[Move]) -> None:
        for name, fault, limit, pick in steps:
            self.system.run(self._step(name, fault, limit, pick))

    async def _step(self, name: str, fault: Any, limit: int, pick: int) -> None:
        system = self.system
        match name:
            case "pass_on":
                system.pass_on(limit, dies=fault)
            case "remember":
                await system.remember(limit, dies_at=fault, visit=1 if fault == "before_ack" else pick)
            case "relay":
                await self._relay(fault, limit, pick)
            case "project":
                places = [one for store in STORES for one in system.standing(store)]
                await system.project(places[pick % len(places)], limit, fault, visit=1 + pick % 3)
            case "wake":
                for store in STORES:
                    for one in system.standing(store):
                        await one.wake()

    async def _relay(self, fault: str, limit: int, pick: int) -> None:
        async def meanwhile() -> None:
            await self.system.remember(limit)

        shards = ((0, 1), (0,), (1,))[pick % 3]
        await self.system.relay(
            limit,
            shards,
            batches=1 + pick % 4,
            dies_at=fault,
            landing=pick % 5 if fault == "after_relay_send" else None,
            meanwhile=meanwhile if pick % 2 else None,
        )

    @later
    @rule(published=st.booleans())
    def the_write_path_works(self, published: bool) -> None:
        """Everything said so far is remembered, and perhaps published; the stores lag behind."""
        self.system.run(self._write_path(published=published))

    async def _write_path(self, *, published: bool) -> None:
        self.system.pass_on(EVERYTHING)
        await self.system.remember(EVERYTHING)
        if published:
            await self.system.relay(EVERYTHING)

    @later
    @rule(faults=st.lists(st.tuples(st.sampled_from(FAULTS), few, numbers), min_size=1, max_size=8))
    def projectors_fail_while_much_is_to_do(self, faults: list[tuple[str, int, int]]) -> None:
        self.system.run(self._write_path(published=True))
        for fault, limit, pick in faults:
            self.system.run(self._step("project", fault, limit, pick))

    @later
    @rule(pick=numbers)
    def an_owner_is_overtaken(self, pick: int) -> None:
        """Partitions move while their owner holds a batch in its hands; it will write that when others are long past it."""
        self.system.run(self._write_path(published=True))
        self.system.run(self._step("project", "moved_away", EVERYTHING, pick))

    @later
    @rule()
    def the_log_is_compacted(self) -> None:
        self.system.log.compact(UPDATED.name)

    # Generations

    @later
    @rule(store=stores)
    def a_rebuild_begins(self, store: Any) -> None:
        if len(self.system.standing(store)) < 3:
            self.system.run(self.system.begin(store, "building"))

    @later
    @rule(store=stores)
    def a_rebuild_ends(self, store: Any) -> None:
        self.system.run(self._switch(store))

    async def _switch(self, store: Any) -> None:
        """Switch to a generation that was built, if it agrees with the truth."""
        system = self.system
        for audit in [a for a in audits(system) if a.name == store and a.projecting is not None]:
            one = audit.projecting
            if one is None or one.generation.state != "building":
                continue
            await system.publish()
            if (await compared(system, audit)).differences:
                continue
            system.live(store).become("draining")
            one.become("live")
            return

    @later
    @rule(store=stores)
    def what_drained_is_dropped(self, store: Any) -> None:
        for one in self.system.standing(store):
            if one.generation.state == "draining":
                one.become("dropped")
                self.system.run(self.system.stores[store].drop(one.generation))

    # Damage and repair

    @later
    @rule(kind=st.sampled_from(DAMAGES[:-1]), pick=numbers)
    def something_is_damaged_at_work(self, kind: str, pick: int) -> None:
        found = damage(self.system, kind, pick, self.drifted)
        if found is not None:
            self.drifted.add(found)

    @later
    @rule(kinds=st.lists(st.tuples(st.sampled_from(DAMAGES), numbers), min_size=1, max_size=4))
    def damage_is_found_exactly_and_repairs_begin(self, kinds: list[tuple[str, int]]) -> None:
        self.system.run(self._find(kinds))

    async def _find(self, kinds: list[tuple[str, int]]) -> None:
        await self._settle()
        done: Drifted = set()
        for kind, pick in kinds:
            found = damage(self.system, kind, pick, done)
            if found is not None:
                done.add(found)
        self.drifted |= done
        looks = [(audit, (await compared(self.system, audit)).differences) for audit in audits(self.system)]
        reported = {(audit.name, audit.generation, one.key) for audit, found in looks for one in found}
        for audit, differences in looks:
            enqueue(self.system, audit, differences)
        assert reported == done, f"damaged {sorted(done)}, found {sorted(reported)}"

    @later
    @rule()
    def everything_comes_to_rest(self) -> None:
        self.system.run(self._settle())

    async def _settle(self) -> None:
        """Drain, check, repair what was damaged, and check that nothing is left."""
        await self.system.drain()
        await check(self.system, self.oracle, self.drifted)
        for _ in range(2):
            for audit in audits(self.system):
                enqueue(self.system, audit, (await compared(self.system, audit)).differences)
            await self.system.publish()
        for store in STORES:
            for one in self.system.standing(store):
                # They were caused by the damage, or the check before would have found them.
                one.conflicts.clear()
        self.drifted = set()
        await check(self.system, self.oracle, self.drifted)

    def teardown(self) -> None:
        """Come to rest, and build every store twice more from the log: both must equal what is live."""
        try:
            self.system.run(self._settle())
            self.system.run(self._rebuild_twice())
        finally:
            asyncio.set_event_loop(None)
            self.system.close()

    async def _rebuild_twice(self) -> None:
        system = self.system
        for store in STORES:
            live = system.live(store)
            built = [await system.begin(store, "building") for _ in range(2)]
            for one, limit in zip(built, (EVERYTHING, 3), strict=True):
                while not one.group.caught_up:
                    await system.project(one, limit)
            door = system.stores[store]
            digests = [
                [entry async for entry in door.fingerprints(one.generation, deep=True)] for one in (live, *built)
            ]
            shown = [[entry for entry in entries if entry.content] for entries in digests]
            assert digests[1] == digests[2], f"two rebuilds of {store} differ"
            assert shown[0] == shown[1], f"the rebuilt {store} shows something else than the live one"

    # Small things

    def _next(self) -> int:
        self.number += 1
        self.system.now_ms += 60_000
        return self.number

    def _propose(self, user: User, proposal: DecodedProposal, times: int) -> None:
        envelope = msgspec.structs.replace(proposal.envelope, **_scope(user))
        for _ in range(times):
            self.system.propose(DecodedProposal(envelope, proposal.body))

    def _target(self, user: User, pick: int) -> tuple[str, int]:
        """Return the name of something that exists by now, with its version if it is a memory."""
        tables = self.system.pool.tables
        known: dict[str, Memory | PendingEntry | ReviewEntry] = {}
        for table in ("memories", "pending", "review", "quarantine"):
            known |= tables.of_user(table, user)
        if not known:
            return "", 0
        name = sorted(known)[pick % len(known)]
        found = known[name]
        return name, found.version if isinstance(found, Memory) else 0


def _scope(user: User) -> dict[str, Any]:
    return {"tenant_id": user[0], "user_id": user[1]}
