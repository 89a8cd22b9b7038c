"""Bringing the surroundings into shape: databases, roles, tables and topics.

Called by ``engram migrate`` in production, and by ``engram up`` and ``engram demo`` before they start workers. Running it
again changes nothing.
"""

import asyncio
from collections.abc import Callable

from rich.console import Console

from infra.migrate import migrate as apply_migrations
from schemas.settings import Settings, load_settings
from streams.kafka import ensure_topics

SetupStep = tuple[str, Callable[[Settings], None]]


def _create_topics(settings: Settings) -> None:
    asyncio.run(ensure_topics(settings))


SETUP_STEPS: tuple[SetupStep, ...] = (
    ("databases, roles and tables", apply_migrations),
    ("topics", _create_topics),
)


def migrate() -> None:
    """Create or upgrade databases, roles, tables and topics; safe to repeat."""
    settings = load_settings()
    console = Console()
    for name, step in SETUP_STEPS:
        step(settings)
        console.print(f"{name}: up to date")
