"""The state directory of one local stack: its secrets, its ports, its lock and the list of its processes.

Owned by ``infra``; called by ``LocalStack`` and by the stack commands. Secrets are made once per directory and kept in
a file that only the owner reads. It starts and ends no process.
"""

import base64
import fcntl
import json
import os
import random
import secrets
import shlex
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import Misconfigured

# Outside the range from which systems take the local ports of outgoing connections: a remembered port is then
# not lost to some client between a stop and the next start.
PORT_RANGE = range(20_000, 30_000)
PORT_TRIES = 200


class Secrets(msgspec.Struct, frozen=True):
    """What the servers of one state directory are protected with."""

    postgres_admin_password: str
    postgres_password: str
    neo4j_password: str
    influx_password: str
    kafka_cluster_id: str
    master_key: str


class StateDirectory:
    """The files of one local stack below ``root``; created on first use, readable by the owner only."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._lock: int | None = None

    @property
    def logs(self) -> Path:
        """The folder with one log file per process."""
        return self.root / "logs"

    @property
    def workers(self) -> Path:
        """The folder with one heartbeat file per worker."""
        return self.root / "workers"

    @property
    def snapshot_file(self) -> Path:
        """The file that tells what runs: written by the running stack, read by ``status`` and ``down``."""
        return self.root / "stack.json"

    def create(self) -> None:
        """Make the folders; only their owner looks into them."""
        for folder in (self.root, self.logs, self.workers, self.root / "servers"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def make_server(self, name: str) -> Path:
        """Make and return the folder that holds the data and the configuration of one server."""
        folder = self.root / "servers" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def secrets(self) -> Secrets:
        """Return the secrets of this directory, made on the first call."""
        path = self.root / "secrets.json"
        if not path.exists():
            write_private(path, msgspec.json.format(msgspec.json.encode(new_secrets())))
        return msgspec.json.decode(path.read_bytes(), type=Secrets)

    def ports(self, names: Iterable[str]) -> dict[str, int]:
        """Return a port for every name: the remembered one while it is free, else a new free one, remembered."""
        path = self.root / "ports.json"
        remembered: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        chosen: dict[str, int] = {}
        for name in names:
            port = remembered.get(name)
            if port is None or port in chosen.values() or not is_free(port):
                port = free_port({*chosen.values(), *remembered.values()})
            chosen[name] = port
        write_atomically(path, json.dumps({**remembered, **chosen}, indent=1).encode())
        return chosen

    def acquire(self) -> None:
        """Take the directory for this process; raises ``Misconfigured`` while another process has it.

        The lock belongs to the open file, so the kernel frees it when the process ends, however it ends.
        """
        self.create()
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise self._taken(self.owner()) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._lock = descriptor

    def require_free(self) -> None:
        """Raise ``Misconfigured`` while a process has the directory."""
        owner = self.owner()
        if owner is not None:
            raise self._taken(owner)

    def _taken(self, owner: int | None) -> Misconfigured:
        return Misconfigured(
            f"A stack already runs on {self.root} (process {owner or 'unknown'}):"
            " end it with `engram down`, or choose another directory with ENGRAM_STATE_DIR."
        )

    def release(self) -> None:
        """Give the directory back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def owner(self) -> int | None:
        """Return the process that holds the directory now, or None when nobody does."""
        path = self.root / "lock"
        if not path.exists():
            return None
        with path.open("r+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = handle.read().strip()
                return int(text) if text.isdigit() else None
        return None

    def write_environment(self, variables: Mapping[str, str]) -> None:
        """Write the variables that clients of the running stack need, as ``KEY=VALUE`` lines for a shell."""
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in sorted(variables.items())]
        write_private(self.root / "environment", "".join(lines).encode())

    def environment(self) -> dict[str, str]:
        """Return the variables that clients of the stack of this directory need; empty before its first start."""
        path = self.root / "environment"
        lines = path.read_text().splitlines() if path.exists() else []
        return {name: "".join(shlex.split(value)) for name, _, value in (line.partition("=") for line in lines)}

    def snapshot(self) -> dict[str, Any] | None:
        """Return what the running stack wrote last, or None."""
        try:
            content: dict[str, Any] = json.loads(self.snapshot_file.read_text())
        except (OSError, ValueError):
            return None
        return content


def new_secrets() -> Secrets:
    """Draw fresh secrets: passwords of 192 bits, a master key of 32 bytes in URL-safe base64."""
    return Secrets(
        postgres_admin_password=secrets.token_hex(24),
        postgres_password=secrets.token_hex(24),
        neo4j_password=secrets.token_hex(24),
        influx_password=secrets.token_hex(24),
        kafka_cluster_id=new_cluster_id(),
        master_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    )


def new_cluster_id() -> str:
    """Draw a Kafka cluster id: 16 random bytes in URL-safe base64, never with a "-" first, which its tool reads as an option."""
    while (drawn := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")).startswith("-"):
        pass
    return drawn


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only the owner can read, in one step."""
    write_atomically(path, content, mode=0o600)


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace a file in one step, so that a reader sees the old or the new content and nothing between."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
    scratch.replace(path)


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of a server that just ended linger in TIME_WAIT; servers set this option and are not hindered.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port(taken: set[int]) -> int:
    """Return a free port that is not in ``taken``; chance keeps two stacks that start at once apart."""
    for _ in range(PORT_TRIES):
        port = random.choice(PORT_RANGE)  # noqa: S311  # chance against collisions, not a secret
        if port not in taken and is_free(port):
            return port
    raise Misconfigured(f"No free port found between {PORT_RANGE.start} and {PORT_RANGE.stop - 1}.")
