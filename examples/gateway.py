"""A chat gateway in twenty lines: sends two finished turns and waits until they are remembered.

Run it with the settings of your stack in the environment: ``python examples/gateway.py``.
"""

import asyncio

from schemas.settings import load_settings
from streams.key_store import KeyStore
from streams.producer import TurnProducer
from streams.remembered import wait_for

TURNS = (
    ("alice", "My name is Alice and I'm allergic to peanuts", "Noted, Alice: no peanuts."),
    ("xiaoming", "我叫小明，在深圳做后端", "你好，小明。"),
)


async def main() -> None:
    """Send each turn as a gateway would after answering it."""
    settings = load_settings()
    keys = await KeyStore.open(settings)
    try:
        async with TurnProducer(settings, keys, name="example-gateway") as producer:
            for user, said, answer in TURNS:
                receipt = await producer.turn(
                    tenant="acme",
                    user=user,
                    session="example",
                    user_message=said,
                    assistant_message=answer,
                    timezone_offset="+08:00",
                )
                await wait_for(settings, "acme", user, receipt.position, timeout_seconds=30)
                print(f"remembered: {user}, event {receipt.event_id}")
    finally:
        await keys.close()


if __name__ == "__main__":
    asyncio.run(main())
