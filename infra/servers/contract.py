"""What the local stack knows of a server: how it is had, started, checked, and what its clients must be told.

Owned by ``infra``; implemented by one file per server in this folder; used by ``LocalStack`` only. A server never keeps
state of its own in memory: everything it needs is in its ``Site``.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from infra.artifacts import Artifact
from infra.state import Secrets

CHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Site:
    """Where one server runs: its folder, its program (None when a Python package brings it), its ports, the secrets."""

    directory: Path
    program: Path | None
    ports: Mapping[str, int]
    secrets: Secrets


@dataclass(frozen=True, slots=True)
class Launch:
    """How the prepared server is started, and how it is asked to end."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 30.0


class Server(Protocol):
    """One kind of server."""

    @property
    def name(self) -> str:
        """The name of the server, its folder and its log."""
        ...

    @property
    def version(self) -> str:
        """Which release it is."""
        ...

    @property
    def ports(self) -> tuple[str, ...]:
        """Name the ports, the one for clients first."""
        ...

    @property
    def tools(self) -> tuple[str, ...]:
        """Name the programs of the machine that it needs to run."""
        ...

    def artifact(self) -> Artifact | None:
        """Describe what must be fetched or built, or None when an installed package has it."""
        ...

    def arrange(self, site: Site) -> Launch:
        """Write the configuration, format the storage on the first start, and say how to start."""
        ...

    def check(self, site: Site) -> None:
        """Ask it something real; returns when it answered, raises its client's error when it did not."""
        ...

    def settle(self, site: Site) -> None:
        """Do once what needs the running server, such as setting a password; safe to repeat."""
        ...

    def environment(self, site: Site) -> dict[str, str]:
        """Return the ``ENGRAM_*`` variables that let a client reach it."""
        ...
