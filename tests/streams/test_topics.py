"""Topics are created as asked for, or somebody is told why not."""

import asyncio

import pytest

from schemas.errors import Misconfigured
from schemas.settings import Settings
from schemas.topics import TOPICS
from streams.kafka import admin, ensure_topics

pytestmark = pytest.mark.stack


async def test_a_topic_that_the_broker_refuses_is_named_with_its_reason(settings: Settings) -> None:
    three = settings.model_copy(update={"replication_factor": 3})
    with pytest.raises(Misconfigured, match=f"topic {settings.topic_prefix}.* was not created: .*Replication.*3"):
        await ensure_topics(three)
    async with admin(settings) as client:
        assert not [name for name in await client.list_topics() if name.startswith(settings.topic_prefix)]


async def test_two_who_create_the_topics_at_once_are_both_content(settings: Settings) -> None:
    names = {topic.named(settings.topic_prefix) for topic in TOPICS}
    created = await asyncio.gather(*(ensure_topics(settings) for _ in range(3)))
    assert set().union(*created) == names
    assert await ensure_topics(settings) == ()
    async with admin(settings) as client:
        assert names <= set(await client.list_topics())
        await client.delete_topics(sorted(names))
