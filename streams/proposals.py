"""Reading what came from ``memory.proposals``: valid ids and labels, data keys read together, bodies in clear.

Called by ``remember``. Decides nothing; what cannot be read says why, and how far it could be.
"""

from collections.abc import Sequence

from schemas.candidates import Extraction
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.ids import check_id
from schemas.memories import MemoryVectors
from schemas.proposals import Command, Proposal
from schemas.sealing import opened_key
from streams.changes import DecodedProposal
from streams.inputs import Keys, key_name
from streams.sealed_records import open_record
from streams.stage import Input, unless_rejected

_LABEL_CHARACTERS = 256
_COMMANDS = ("edit", "confirm", "deny", "approve", "reject", "rollback", "restore", "forget", "erase")


def read_proposal(codec: Codec, message: bytes) -> Proposal:
    """Return the envelope with valid ids and labels; raises ``Rejected`` (``bad_avro``, ``unknown_schema``, ``bad_id``)."""
    envelope = codec.decode(message, Proposal)
    check_id("tenant_id", envelope.tenant_id)
    check_id("user_id", envelope.user_id)
    for name in ("proposal_id", "kind", "event_id", "actor"):
        text = getattr(envelope, name)
        if len(text) > _LABEL_CHARACTERS or "\x00" in text:
            raise Rejected(f"{name} is longer than {_LABEL_CHARACTERS} characters or holds a NUL", code="bad_id")
    if not envelope.proposal_id:
        raise Rejected("proposal_id is missing or empty", code="bad_id")
    return envelope


async def open_proposals(
    codec: Codec, keys: Keys, inputs: Sequence[Input]
) -> list[tuple[Proposal | Rejected, DecodedProposal | Rejected]]:
    """Return of each its envelope and the proposal in clear, or why there is none (``erased``, ``bad_seal``, …).

    Raises ``Retryable`` when the key store is away.
    """
    envelopes = [unless_rejected(lambda one: read_proposal(codec, one.message), one) for one in inputs]
    found = await keys.keys_of(
        key_name(e, e.body)
        for e in envelopes
        if isinstance(e, Proposal) and e.body is not None and _body_type(e.kind) is not None
    )

    def opened(envelope: Proposal) -> DecodedProposal:
        if envelope.body is None:
            return DecodedProposal(envelope, None)
        body_type = _body_type(envelope.kind)
        if body_type is None:
            return DecodedProposal(envelope, Command())
        key = opened_key(found[key_name(envelope, envelope.body)])
        return DecodedProposal(envelope, open_record(codec, envelope.body, key, body_type))

    return [(envelope, unless_rejected(opened, envelope)) for envelope in envelopes]


def records_at_most(proposal: DecodedProposal) -> int:
    """Return how many new records a proposal can make at most, each of which needs a data key."""
    body = proposal.body
    return len(body.candidates) + len(body.refusals) if isinstance(body, Extraction) else 0


def _body_type(kind: str) -> type[Extraction] | type[Command] | type[MemoryVectors] | None:
    if kind == "candidates":
        return Extraction
    if kind == "vectors":
        return MemoryVectors
    return Command if kind in _COMMANDS else None
