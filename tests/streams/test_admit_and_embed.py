"""The stages ``admit`` and ``embed``: what they open, seal and propose, and how refusals travel on."""

import struct
from collections.abc import Sequence

import pytest
import stage_kit as kit
from msgspec.structs import replace

from schemas.candidates import Extraction, MemoryAdmitted, MemoryExtracted
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.inputs import Origin
from schemas.proposals import Proposal
from streams.admit import Admit
from streams.embed import Embed
from streams.sealed_records import open_record
from streams.stage import Input, StageResult

SAID = ("我对花生过敏，电话13800138000", "I am allergic to peanuts, call 13800138000")


class LengthEmbedder:
    """A model whose vector is the length of the text; it keeps what it was given."""

    revision = "length-1"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.calls: list[int] = []

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.seen += texts
        self.calls.append(len(texts))
        return [struct.pack("<2f", len(text), 1.0) for text in texts]


def mask(text: str) -> str:
    return text.replace("13800138000", "[PHONE_MASKED]")


def admit_all(extraction: Extraction, _event: MemoryExtracted) -> Extraction:
    admitted = tuple(replace(c, outcome="admit", category="fact") for c in extraction.candidates)
    return replace(extraction, candidates=admitted, gate_version="test")


def quarantine_all(extraction: Extraction, _event: MemoryExtracted) -> Extraction:
    return replace(extraction, candidates=tuple(replace(c, outcome="quarantine") for c in extraction.candidates))


class Line:
    """The three stages after one another, without Kafka."""

    def __init__(self, judge: object = admit_all) -> None:
        self.keys = kit.MemoryKeys()
        self.embedder = LengthEmbedder()
        settings = kit.pure_settings()
        self.extract = kit.extract_stage(self.keys)
        self.admit = Admit(judge, kit.CODEC, self.keys, settings)  # type: ignore[arg-type]
        self.embed = Embed(mask, self.embedder, kit.CODEC, self.keys, settings=settings, now_ms=lambda: kit.NOW_MS + 40)

    async def extracted(self, said: str, **changes: object) -> bytes:
        message = await kit.message(self.keys, kit.turn(said), **changes)
        return (await kit.handled(self.extract, message, kit.position_of())).outputs[0].value

    async def admitted(self, said: str, **changes: object) -> bytes:
        return (await kit.handled(self.admit, await self.extracted(said, **changes), Origin(0, 0))).outputs[0].value

    async def proposal(self, said: str, **changes: object) -> Proposal:
        (output,) = (await kit.handled(self.embed, await self.admitted(said, **changes), Origin(0, 0))).outputs
        assert (output.topic.name, output.key) == ("memory.proposals", b"acme/xiaoming")
        return kit.CODEC.decode(output.value, Proposal)

    def opened(self, proposal: Proposal) -> Extraction:
        assert proposal.body is not None
        return open_record(kit.CODEC, proposal.body, self.keys.made[proposal.body.key_id], Extraction)


@pytest.mark.parametrize("said", SAID)
async def test_the_proposal_carries_vectors_of_masked_text_only(said: str) -> None:
    line = Line()
    proposal = await line.proposal(said)
    (candidate,) = line.opened(proposal).candidates
    assert candidate.content == said
    assert candidate.masked_text == mask(said)
    assert candidate.vectors[0].revision == "length-1"
    assert struct.unpack("<2f", candidate.vectors[0].values)[0] == len(mask(said))
    assert line.embedder.seen == [mask(said)]


async def test_the_proposal_says_where_it_comes_from_and_when() -> None:
    proposal = await Line().proposal(SAID[0])
    assert (proposal.kind, proposal.event_id, proposal.session_id) == ("candidates", "event-1", "session-1")
    assert proposal.origin == kit.position_of()
    assert (proposal.occurred_at_ms, proposal.received_at_ms) == (kit.NOW_MS + 40, kit.NOW_MS)


async def test_the_same_input_proposes_the_same_and_another_user_something_else() -> None:
    line = Line()
    first, again = await line.proposal(SAID[0]), await line.proposal(SAID[1])
    assert first.proposal_id == again.proposal_id
    other = await line.proposal(SAID[0], event_id="event-2")
    assert other.proposal_id != first.proposal_id


async def test_what_is_quarantined_is_never_embedded() -> None:
    line = Line(quarantine_all)
    proposal = await line.proposal(SAID[0])
    assert line.embedder.seen == []
    assert line.opened(proposal).candidates[0].vectors == ()


async def test_an_empty_event_passes_through_both_stages() -> None:
    line = Line()
    proposal = await line.proposal("")
    assert (proposal.body, proposal.status, proposal.origin) == (None, "nothing", kit.position_of())


async def test_a_key_destroyed_on_the_way_ends_as_an_empty_erased_proposal() -> None:
    line = Line()
    message = await line.extracted(SAID[0])
    line.keys.destroyed |= set(line.keys.made)
    with pytest.raises(Rejected) as refused:
        await kit.handled(line.admit, message, Origin(0, 3))
    refusal = await kit.refusal(line.admit, message, Origin(0, 3), refused.value)
    assert not refusal.dead
    (output,) = (await kit.handled(line.embed, refusal.result.outputs[0].value, Origin(0, 0))).outputs
    proposal = kit.CODEC.decode(output.value, Proposal)
    assert (proposal.status, proposal.body, proposal.origin) == ("erased", None, kit.position_of())


@pytest.mark.parametrize("stage", ["admit", "embed"])
async def test_bytes_that_are_none_of_ours_go_to_the_dead_letters_alone(stage: str) -> None:
    tested = getattr(Line(), stage)
    for message in (b"", b"\x00\x00\x00\x00\x01", Codec().encode(kit.turn("x"))):
        with pytest.raises(Rejected) as refused:
            await kit.handled(tested, message, Origin(1, 5))
        refusal = await kit.refusal(tested, message, Origin(1, 5), refused.value)
        assert refusal.dead
        assert refusal.result.outputs == ()


async def test_a_broken_body_is_refused_but_its_origin_goes_on() -> None:
    line = Line()
    event = kit.CODEC.decode(await line.admitted(SAID[0]), MemoryAdmitted)
    assert event.body is not None
    message = kit.CODEC.encode(replace(event, body=replace(event.body, nonce=b"0" * 12)))
    with pytest.raises(Rejected) as refused:
        await kit.handled(line.embed, message, Origin(0, 0))
    assert refused.value.code == "bad_seal"
    refusal = await kit.refusal(line.embed, message, Origin(0, 0), refused.value)
    proposal = kit.CODEC.decode(refusal.result.outputs[0].value, Proposal)
    assert refusal.dead
    assert (proposal.status, proposal.body, proposal.origin) == ("rejected", None, kit.position_of())


async def test_an_output_above_the_stage_limit_is_refused_with_the_limit_named() -> None:
    line = Line()
    extract = kit.extract_stage(line.keys, stage_limit_bytes=500)
    message = await kit.message(line.keys, kit.turn("long " * 200))
    with pytest.raises(Rejected, match="the limit is 500") as refused:
        await kit.handled(extract, message, kit.position_of())
    assert refused.value.code == "too_large"


async def test_what_comes_together_leads_to_the_same_as_one_after_the_other() -> None:
    line = Line()
    said = ("我喜欢爬山", "I like hiking", "打 13800138000 找我")
    messages = [await line.admitted(text, event_id=f"event-{n}") for n, text in enumerate(said)]
    event = kit.CODEC.decode(messages[1], MemoryAdmitted)
    assert event.body is not None
    messages[1] = kit.CODEC.encode(replace(event, body=replace(event.body, nonce=b"0" * 12)))
    line.embedder.calls.clear()
    inputs = [Input(message, Origin(0, n)) for n, message in enumerate([*messages, b"junk"])]
    first, broken, third, junk = await line.embed.handle(inputs)
    assert line.embedder.calls == [2]
    assert isinstance(broken, Rejected)
    assert isinstance(junk, Rejected)
    assert (broken.code, junk.code) == ("bad_seal", "bad_avro")
    for message, together in ((messages[0], first), (messages[2], third)):
        assert isinstance(together, StageResult)
        alone = await kit.handled(line.embed, message, Origin(0, 0))
        one, other = (kit.CODEC.decode(result.outputs[0].value, Proposal) for result in (alone, together))
        assert one.proposal_id == other.proposal_id
        assert line.opened(one) == line.opened(other)
