"""Opens the door to a store by its name.

Called by the wiring of workers and commands. A process loads the client library of the store it needs, and no other.
"""

import importlib
from typing import Any

from projectors.door import Door
from projectors.entries import Store
from schemas.settings import Settings

_CLASSES: dict[Store, str] = {"milvus": "MilvusDoor", "neo4j": "Neo4jDoor", "influx": "InfluxDoor"}


def open_door(settings: Settings, store: Store) -> Door[Any]:
    """Return the door to ``store``; it connects at its first call."""
    module = importlib.import_module(f"projectors.{store}")
    door: Door[Any] = getattr(module, _CLASSES[store])(settings)
    return door
