"""One local stack: the real servers and the workers of one state directory, from preparation to a clean stop.

Owned by ``infra``; used by the stack commands, by tests and by measurements. It writes no schema and creates no topics:
that is done by the setup steps of whoever starts it.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from infra.artifacts import end_builds, obtain
from infra.lifecycle import Policy, State
from infra.processes import Family, ProcessSpec, tail
from infra.servers.contract import Server, Site
from infra.servers.influx import Influx
from infra.servers.kafka import Kafka
from infra.servers.milvus import Milvus
from infra.servers.neo4j import Neo4j
from infra.servers.postgres import Postgres
from infra.state import StateDirectory, is_free, write_private
from infra.supervisor import ProcessStatus, Supervisor
from infra.toolchain import require_tools
from schemas.errors import Broken, EngramError

SERVERS: tuple[Server, ...] = (Kafka(), Postgres(), Milvus(), Neo4j(), Influx())
# A server that dies is noticed at once. One that recovers from a kill on a busy machine must not be killed again for being
# slow: Neo4j then never gets to the end of its recovery.
START_SECONDS = 300.0
CHECK_PAUSE_SECONDS = 0.25
START_TRIES = 3
LOG_LINES_SHOWN = 15

Progress = Callable[[str, str], None]


def silent(name: str, text: str) -> None:
    """Report nothing."""


class LocalStack:
    """The servers and workers below ``state_dir``; as a context manager: servers only, stopped at the end.

    ``progress(name, text)`` is told what happens to each server, ``ready`` last. With ``supervise_servers`` a server that
    ends is started again; without, it stays down until ``restart``, which is what tests of faults need.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        progress: Progress = silent,
        servers: Sequence[Server] = SERVERS,
        supervise_servers: bool = False,
        policy: Policy | None = None,
        whole: bool = True,
    ) -> None:
        self.state = StateDirectory(state_dir)
        self._whole = whole
        self._progress = progress
        self._servers = {server.name: server for server in servers}
        self._supervise_servers = supervise_servers
        self._programs: dict[str, Path | None] = {}
        self._sites: dict[str, Site] = {}
        self._workers: list[str] = []
        self._metrics_ports: dict[str, int] = {}
        self._family = Family(self.state.root)
        self._policy = policy
        self._supervisor: Supervisor | None = None
        self._writing = threading.Lock()
        self._abandoned = threading.Event()

    def __enter__(self) -> Self:
        """Prepare and start the servers."""
        self.prepare()
        self.start_servers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    def prepare(self) -> None:
        """Fetch and build what is missing, in parallel; raises ``Misconfigured`` when a tool is missing."""
        for server in self._servers.values():
            require_tools(server.tools, f"Running {server.name} {server.version}")
        self._for_each(self._servers, self._prepare_one)

    def start_servers(self) -> None:
        """Take the state directory, end what an earlier stack left, start all servers and wait until they answer.

        Raises ``Misconfigured`` when another stack has the directory, ``Broken`` when a server does not start; then
        everything is stopped again.
        """
        self.state.acquire()
        try:
            self._family.end_leftovers(recorded_processes(self.state))
            self._family.open()
            self._supervisor = Supervisor(
                self._family, self.state.logs, policy=self._policy, changed=self._write_snapshot
            )
            self._supervisor.open()
            self._for_each(self._servers, self._start_one)
            self.state.write_environment(self.environment())
        except BaseException:
            self.stop()
            raise

    def environment(self) -> dict[str, str]:
        """Return every ``ENGRAM_*`` variable that a client of this stack needs; contains secrets."""
        variables: dict[str, str] = {}
        for name, site in self._sites.items():
            variables |= self._servers[name].environment(site)
        variables["ENGRAM_MASTER_KEY"] = self.state.secrets().master_key
        variables["ENGRAM_STATE_DIR"] = str(self.state.root)
        return variables

    def start_workers(self, specs: Iterable[ProcessSpec]) -> None:
        """Start worker processes and keep them running; their environment gets that of the stack below it.

        Each has a port of its own for its metrics and health.
        """
        chosen = list(specs)
        with self._writing:
            ports = self.state.ports([f"{spec.name}.metrics" for spec in chosen])
        for spec in chosen:
            self._workers.append(spec.name)
            self._metrics_ports[spec.name] = port = ports[f"{spec.name}.metrics"]
            given = {**self.environment(), "ENGRAM_METRICS_PORT": str(port)}
            self._require().start(replace(spec, environment={**given, **spec.environment}))

    def wait_for_workers(self, timeout_seconds: float = 120.0) -> None:
        """Wait until every worker is ready; raises ``Broken`` with the state of one that is not."""
        names = set(self._workers)

        def settled(statuses: list[ProcessStatus]) -> bool:
            mine = [status for status in statuses if status.name in names]
            return all(status.state in {State.READY, State.FAILED} for status in mine)

        self._require().wait(settled, timeout_seconds)
        for status in self.statuses():
            if status.name in names and status.state is not State.READY:
                raise Broken(f"Worker {status.name} is not ready but {status.state.value}: {status.detail}")

    def stop_workers(self, names: Iterable[str] | None = None) -> None:
        """Stop all or the named workers cleanly."""
        chosen = list(self._workers if names is None else names)
        self._require().stop(chosen)
        self._workers = [name for name in self._workers if name not in chosen]

    def stop(self) -> None:
        """Stop everything in order, workers first; safe to repeat."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.stop(self._workers)
            supervisor.stop(self._servers)
            supervisor.close()
        self._workers = []
        self._family.close()
        self.state.release()

    def statuses(self) -> list[ProcessStatus]:
        """Return what is known of every process, servers first."""
        found = self._supervisor.statuses() if self._supervisor is not None else []
        order = list(self._servers)
        return sorted(found, key=lambda status: order.index(status.name) if status.name in order else len(order))

    def kill(self, name: str) -> None:
        """Kill a server or worker without warning."""
        self._require().kill(name)

    def freeze(self, name: str) -> None:
        """Freeze a server or worker: it keeps its connections and answers nothing."""
        self._require().freeze(name)

    def thaw(self, name: str) -> None:
        """Let a frozen one go on."""
        self._require().thaw(name)

    def restart(self, name: str) -> None:
        """Stop a server if it runs, start it on its old ports and wait until it answers."""
        self._require().stop([name])
        self._launch(self._servers[name], self._sites[name])

    def check(self, name: str) -> bool:
        """Ask a server something real now; tells whether it answered, and notes it as its state."""
        supervisor = self._require()
        try:
            self._servers[name].check(self._sites[name])
        except Exception as error:  # noqa: BLE001  # five client libraries, each with its own errors, mean the same here
            if self._states().get(name) is State.READY:
                supervisor.mark(name, State.WAITING, f"does not answer: {first_line(error)}")
            return False
        supervisor.mark(name, State.READY)
        return True

    def check_servers(self, *, ready: bool = True) -> None:
        """Ask the running servers and note the answers; with ``ready`` false only those that did not answer last."""
        chosen = [name for name, state in self._states().items() if ready or state is not State.READY]
        self._for_each(chosen, self.check)

    def _states(self) -> dict[str, State]:
        return {status.name: status.state for status in self.statuses() if status.pid and status.name in self._sites}

    def _require(self) -> Supervisor:
        if self._supervisor is None:
            raise Broken("The stack does not run.")
        return self._supervisor

    def _for_each(self, names: Iterable[str], act: Callable[[str], object]) -> None:
        with ThreadPoolExecutor(max_workers=max(1, len(self._servers))) as pool:
            try:
                for done in as_completed([pool.submit(act, name) for name in names]):
                    done.result()
            except BaseException:
                # Leaving the pool waits for its threads, which look at this.
                self._abandoned.set()
                end_builds()
                raise

    def _prepare_one(self, name: str) -> None:
        artifact = self._servers[name].artifact()
        if artifact is not None:
            self._programs[name] = obtain(artifact, lambda text: self._progress(name, text))
        self._progress(name, "prepared")

    def _start_one(self, name: str) -> None:
        server = self._servers[name]
        for last in (attempt == START_TRIES - 1 for attempt in range(START_TRIES)):
            with self._writing:
                ports = self.state.ports([f"{name}.{port}" for port in server.ports])
                secrets = self.state.secrets()
            short = {key.removeprefix(f"{name}."): port for key, port in ports.items()}
            site = Site(self.state.make_server(name), self._programs.get(name), short, secrets)
            self._sites[name] = site
            try:
                self._launch(server, site)
            except Broken:
                # Somebody took one of the ports between the choice and the start: choose again.
                if last or all(is_free(port) for port in ports.values()):
                    raise
            else:
                return

    def _launch(self, server: Server, site: Site) -> None:
        self._progress(server.name, "starting")
        launch = server.arrange(site)
        spec = ProcessSpec(
            name=server.name,
            command=launch.command,
            environment=launch.environment,
            user=launch.user,
            stop_signal=launch.stop_signal,
            stop_seconds=launch.stop_seconds,
        )
        self._require().start(spec, restart=self._supervise_servers)
        self._wait_until_healthy(server, site)
        self._require().mark(server.name, State.READY)
        self._progress(server.name, "ready")

    def _wait_until_healthy(self, server: Server, site: Site) -> None:
        supervisor = self._require()
        deadline = time.monotonic() + START_SECONDS
        trouble = "it did not open its port"
        while time.monotonic() < deadline:
            status = next(status for status in supervisor.statuses() if status.name == server.name)
            if status.state is not State.STARTING:
                trouble = status.detail
                break
            if not is_free(site.ports[server.ports[0]]):
                try:
                    server.check(site)
                    server.settle(site)
                    server.check(site)
                except Exception as error:  # noqa: BLE001  # not healthy yet, whatever the client library calls it
                    trouble = first_line(error)
                else:
                    return
            if self._abandoned.wait(CHECK_PAUSE_SECONDS):
                trouble = "the start was given up"
                break
        supervisor.stop([server.name])
        log = supervisor.log(server.name)
        raise Broken(f"{server.name} did not start: {trouble}; its log {log} ends with:\n{tail(log, LOG_LINES_SHOWN)}")

    def is_whole(self) -> None:
        """Say that everything which was to be started has been: until then status must not call the stack ready."""
        self._whole = True
        self._require().tell()

    def _write_snapshot(self) -> None:
        processes = []
        for status in self.statuses():
            server, site = self._servers.get(status.name), self._sites.get(status.name)
            port = self._metrics_ports.get(status.name)
            if server is not None and site is not None:
                port = site.ports[server.ports[0]]
            kind, version = ("server", server.version) if server is not None else ("worker", None)
            processes.append({**asdict(status), "kind": kind, "version": version, "port": port})
        content = {"pid": os.getpid(), "whole": self._whole, "processes": processes}
        write_private(self.state.snapshot_file, json.dumps(content, indent=1).encode())


def recorded_processes(state: StateDirectory) -> list[tuple[int, float]]:
    """Return process id and start time of everything in the last snapshot of a state directory."""
    processes: list[dict[str, Any]] = (state.snapshot() or {}).get("processes", [])
    return [(entry["pid"], entry["created"]) for entry in processes if entry["pid"] is not None]


def first_line(error: BaseException) -> str:
    """Return the first line of an error, with its kind unless it is one of ours."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else ""
    named = isinstance(error, EngramError) or text.startswith(type(error).__name__)
    return text if named else f"{type(error).__name__}: {text}"
