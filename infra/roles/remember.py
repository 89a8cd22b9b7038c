"""The role ``remember``: decides and writes the truth."""

from collections.abc import Sequence

from infra.stage_process import run_stage
from infra.worker_process import Here
from schemas.codec import Codec
from schemas.errors import Rejected
from schemas.proposals import Proposal
from schemas.settings import Settings
from schemas.topics import PROPOSALS, Topic
from streams import vocabulary
from streams.decision_policy import DecisionPolicy, policy_of
from streams.embedding import embedder_traits
from streams.kafka import ensure_topics
from streams.log_watch import identity_of, known_log
from streams.remember import ROLE, Remember
from streams.stage import ERASED, POISON, Input, Refusal, StageResult


class RememberStage:
    """``Remember`` as a stage: it publishes nothing, and what it rejects has its position moved by it already."""

    name = "remember"
    source: Topic = PROPOSALS

    def __init__(self, remember: Remember, codec: Codec) -> None:
        self._remember = remember
        self._codec = codec

    async def handle(self, inputs: Sequence[Input]) -> list[StageResult | Rejected]:
        """Decide and store the proposals that came together; what is passed over comes back as the reason."""
        outcomes = await self._remember.handle(inputs)
        return [outcome.error or StageResult(status=outcome.status) for outcome in outcomes]

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        """Return the refusal; poison never reached ``Remember``, so its position is moved here."""
        if error.code == POISON:
            await self._remember.skip(one.message, one.position, error)
        envelope = self._envelope(one.message)
        return Refusal(
            StageResult(status="rejected"),
            dead=error.code != ERASED,
            tenant_id=envelope.tenant_id if envelope else "",
            user_id=envelope.user_id if envelope else "",
            event_id=envelope.event_id if envelope else "",
        )

    def _envelope(self, message: bytes) -> Proposal | None:
        try:
            return self._codec.decode(message, Proposal)
        except Rejected:
            return None


def policy_here(settings: Settings) -> DecisionPolicy:
    """Return the policy with the least similarity of the configured embedder; its model is not loaded."""
    traits = embedder_traits(settings.embedder)
    return policy_of(settings, vocabulary, {traits.revision: traits.similar_threshold})


async def run(here: Here) -> None:
    """Run the stage until asked to stop."""
    policy = policy_here(here.settings)
    await ensure_topics(here.settings)
    log = await known_log(here.settings, ROLE)
    identity = identity_of(log, PROPOSALS.named(here.settings.topic_prefix))
    remember = await Remember.open(here.settings, here.codec, policy, topic_identity=identity, crash=here.crash)
    try:
        await run_stage(here, RememberStage(remember, here.codec), log=log)
    finally:
        await remember.close()
