"""Seeded lives of several users, sealed as they travel, and every row of the truth that they lead to."""

import random
from collections.abc import Sequence

import msgspec
from truth_bench import CODEC, Bench
from truth_world import TENANT, asked, candidate, said, vector

from schemas.candidates import Refusal, Relation
from schemas.inputs import Origin
from schemas.memories import MemoryChanged, MemoryVectors
from schemas.routing import partition_of
from streams.changes import DecodedProposal
from streams.remember import Outcome
from streams.stage import Input

# What chance puts into a row (keys, ciphertexts, times of the server) is left out.
SAME = {
    "memories": "to_jsonb(t) - 'key_id'",
    "memory_history": "to_jsonb(t)",
    "memory_edges": "to_jsonb(t)",
    "relations": "to_jsonb(t)",
    "entities": "to_jsonb(t)",
    "memory_vectors": "to_jsonb(t)",
    "pending": "to_jsonb(t) - 'key_id'",
    "review": "to_jsonb(t) - 'key_id'",
    "quarantine": "to_jsonb(t) - 'key_id'",
    "before_marks": "to_jsonb(t)",
    "command_outcomes": "to_jsonb(t)",
    "user_positions": "to_jsonb(t)",
    "positions": "to_jsonb(t)",
}
USERS = ("alice", "bob", "小明".encode().hex(), "user-4", "user-5")
VALUES = ('"深圳"', '"Shenzhen"', '"北京"', '"a bike"', '"茶"', '"tea"')
# Longer than an entry of an index may be: Postgres refuses it, nobody before.
TOO_LONG = "".join(chr(0x4E00 + n % 9000) for n in range(20_000))


def _facts(chance: random.Random, number: int) -> DecodedProposal:
    facts = []
    for place in range(chance.randint(0, 3)):
        value = chance.choice(VALUES)
        likes = Relation(
            subject_type="user", subject_id="self", predicate="likes", object_type="thing", object_id=f"{number % 7}"
        )
        facts.append(
            candidate(
                chance.choice(("city", "likes", "dislikes", "job", "birthday")),
                value,
                confidence=chance.choice((0.4, 0.85, 0.9)),
                source=chance.choice(("user_statement", "assistant", "business_record")),
                link_group=chance.choice(("", "trip")),
                relations=(likes,) if chance.random() < 0.5 else (),
                vectors=(vector(chance.random(), chance.random(), 0.1),) if chance.random() < 0.7 else (),
                causes=(0,) if place else (),
            )
        )
    refusals = (Refusal(gate="gate0", rule_id="r", gate_version="1", outcome="quarantine", side="user", excerpt="*"),)
    return said(number, *facts, refusals=refusals if chance.random() < 0.2 else ())


def _proposal(chance: random.Random, number: int, user: str, known: Sequence[str]) -> DecodedProposal:
    """Return a statement, a command on something of the user, or vectors."""
    if known and chance.random() < 0.3:
        kind = chance.choice(("forget", "restore", "confirm", "edit", "erase", "rollback", "plan", "vectors"))
        name = chance.choice(known)
        command = asked(number, kind, name, **({"value": '"说茶"'} if kind == "edit" else {}), to_version=1)
        body = MemoryVectors(memory_id=name, vectors=(vector(1, 2, 3),)) if kind == "vectors" else command.body
        proposal = DecodedProposal(command.envelope, body)
    else:
        proposal = _facts(chance, number)
    named = msgspec.structs.replace(proposal.envelope, user_id=user, proposal_id=f"{user}-{number}")
    return DecodedProposal(named, proposal.body)


async def lived(bench: Bench, seed: int, count: int) -> tuple[list[Input], list[Outcome]]:
    """Make messages of several users on four partitions, each handled on its own; return them and what became of them.

    Some come twice, some are junk, one Postgres alone refuses; commands aim at what their user has by then.
    """
    chance = random.Random(seed)  # noqa: S311 - a mix that can be made again
    offsets: dict[int, int] = {}
    inputs: list[Input] = []
    outcomes: list[Outcome] = []
    for number in range(count):
        user = chance.choice(USERS)
        rows = await bench.rows("SELECT memory_id::text FROM memories WHERE user_id = %s ORDER BY 1", user)
        rows += await bench.rows("SELECT entry_id::text FROM pending WHERE user_id = %s ORDER BY 1", user)
        proposal = _proposal(chance, number, user, [row[0] for row in rows])
        refused = number == count // 2
        if refused:
            proposal = said(number, candidate("city", '"x"', entity_id=TOO_LONG), user_id=user, proposal_id="too-long")
        message = b"junk" if chance.random() < 0.05 and not refused else await bench.encode(proposal)
        partition = partition_of(TENANT, user, 4)
        for _ in range(2 if chance.random() < 0.15 else 1):
            offsets[partition] = offsets.get(partition, -1) + 1
            inputs.append(Input(message, Origin(partition, offsets[partition])))
            outcomes += await bench.remember.handle(inputs[-1:])
    return inputs, outcomes


async def rows_of_truth(bench: Bench) -> dict[str, list[tuple[object, ...]]]:
    found = {
        table: await bench.rows(f"SELECT {what}::text FROM {table} AS t ORDER BY 1") for table, what in SAME.items()
    }
    outbox = await bench.rows("SELECT user_id, event_id::text, shard, payload FROM memory_outbox ORDER BY outbox_id")
    changed = [
        (user, event, shard, CODEC.decode(bytes(payload), MemoryChanged)) for user, event, shard, payload in outbox
    ]
    # Users have no order among each other.
    changed.sort(key=lambda row: row[0])
    found["memory_outbox"] = [
        (user, event, shard, msgspec.structs.replace(c, body=None), c.body is None) for user, event, shard, c in changed
    ]
    return found
