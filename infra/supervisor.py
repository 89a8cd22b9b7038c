"""Keeps processes running: starts them, restarts those that end or hang, and ends them when asked.

Owned by ``infra``; used by ``LocalStack`` for servers and workers alike. What to do is decided in ``lifecycle``; how it is
done to the operating system is in ``processes``. It knows nothing of what the processes do.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from infra.lifecycle import GiveUp, Policy, State, after_exit, is_hung
from infra.processes import (
    Family,
    ProcessSpec,
    Running,
    ask_to_end,
    find_process,
    kill_tree,
    signal_tree,
    tail,
    wait_or_kill,
)
from schemas.errors import Broken


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """What is known of one process now. ``created`` is its start time from the kernel, in seconds since the epoch."""

    name: str
    state: State
    pid: int | None
    created: float | None
    restarts: int
    detail: str


@dataclass(slots=True)
class _Entry:
    spec: ProcessSpec
    restart: bool
    wanted: bool = False
    running: Running | None = None
    state: State = State.STOPPED
    detail: str = ""
    failures: int = 0
    restarts: int = 0
    starts: int = 0
    started_at: float = 0.0
    start_again_at: float = 0.0
    beat: str = ""
    beat_at: float | None = None


class Supervisor:
    """Processes by name. Every method may be called from any thread; ``changed`` is called after each change."""

    def __init__(
        self, family: Family, logs: Path, *, policy: Policy | None = None, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._family = family
        self._logs = logs
        self._policy = policy or Policy()
        self._changed = changed
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin to watch, in a thread of its own."""
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching; processes are not touched."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def start(self, spec: ProcessSpec, *, restart: bool = True) -> None:
        """Start a process now and keep it running; without ``restart`` it stays down once it has ended."""
        with self._lock:
            entry = self._entries.get(spec.name)
            if entry is not None and entry.running is not None and entry.running.exit_code() is None:
                raise Broken(f"{spec.name} already runs.")
            self._entries[spec.name] = entry = _Entry(
                spec=spec, restart=restart, wanted=True, restarts=entry.restarts + 1 if entry is not None else 0
            )
            self._spawn(entry)
        self.tell()

    def stop(self, names: Iterable[str]) -> None:
        """Ask processes to end, all at once, and kill those that do not in their time."""
        with self._lock:
            entries = [self._entries[name] for name in names if name in self._entries]
            for entry in entries:
                entry.wanted = False
                entry.state = State.STOPPING if entry.running is not None else State.STOPPED
                if entry.running is not None:
                    ask_to_end(entry.running)
        asked_at = time.monotonic()
        for entry in entries:
            if entry.running is not None:
                wait_or_kill(entry.running, asked_at + entry.spec.stop_seconds)
            entry.running, entry.state = None, State.STOPPED
        self.tell()

    def kill(self, name: str) -> None:
        """Kill a process and everything below it without warning; whether it comes back is up to ``restart``."""
        running = self._require(name)
        process = find_process(running.pid, running.created)
        if process is not None:
            kill_tree(process)
        # The last thread of a killed process may end a little after its first, and only then is there an exit code.
        wait_or_kill(running, time.monotonic() + running.spec.stop_seconds)
        self.tick()

    def freeze(self, name: str) -> None:
        """Stop a process and everything below it from running, as if the machine were infinitely slow."""
        signal_tree(self._require(name), signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let a frozen process go on."""
        signal_tree(self._require(name), signal.SIGCONT)

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self._logs / f"{name}.log"

    def statuses(self) -> list[ProcessStatus]:
        """Return what is known of every process, in the order of their first start."""
        with self._lock:
            return [
                ProcessStatus(
                    name=entry.spec.name,
                    state=entry.state,
                    pid=entry.running.pid if entry.running is not None else None,
                    created=entry.running.created if entry.running is not None else None,
                    restarts=entry.restarts,
                    detail=entry.detail,
                )
                for entry in self._entries.values()
            ]

    def mark(self, name: str, state: State, detail: str = "") -> None:
        """Set the state of a process that keeps no heartbeat, as found by whoever checks it."""
        with self._lock:
            entry = self._entries[name]
            if entry.running is not None and entry.wanted and (entry.state, entry.detail) != (state, detail):
                entry.state, entry.detail = state, detail
                self.tell()

    def wait(self, done: Callable[[list[ProcessStatus]], bool], timeout_seconds: float) -> bool:
        """Wait until ``done`` holds for the statuses; returns False when it does not in time."""
        with self._news:
            return self._news.wait_for(lambda: done(self.statuses()), timeout_seconds)

    def tick(self) -> None:
        """Look at every process once and do what is due."""
        with self._lock:
            before = self.statuses()
            for entry in self._entries.values():
                self._look(entry, time.monotonic())
            if self.statuses() != before:
                self.tell()

    def _watch(self) -> None:
        while not self._closing.wait(self._policy.tick_seconds):
            self.tick()

    def tell(self) -> None:
        """Tell whoever waits or watches that something is new; also called by whoever knows of more than processes."""
        with self._news:
            self._news.notify_all()
            self._changed()

    def _require(self, name: str) -> Running:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.running is None:
                raise Broken(f"{name} does not run.")
            return entry.running

    def _spawn(self, entry: _Entry) -> None:
        if entry.spec.ready is not None:
            entry.spec.ready.unlink(missing_ok=True)
        entry.beat, entry.beat_at = "", None
        entry.running = self._family.spawn(entry.spec, self.log(entry.spec.name), first=entry.starts == 0)
        entry.starts += 1
        entry.started_at = time.monotonic()
        entry.state, entry.detail = State.STARTING, ""

    def _look(self, entry: _Entry, now: float) -> None:
        if not entry.wanted:
            return
        if entry.running is None:
            if entry.state is State.BACKING_OFF and now >= entry.start_again_at:
                entry.restarts += 1
                self._spawn(entry)
            return
        exit_code = entry.running.exit_code()
        if exit_code is not None:
            self._ended(entry, exit_code, now)
        elif entry.spec.ready is not None:
            self._listen(entry, entry.spec.ready, now)

    def _listen(self, entry: _Entry, ready: Path, now: float) -> None:
        beat = read_heartbeat(ready)
        if beat is not None and beat.text != entry.beat:
            # Our own clock counts from the change seen, so neither a set clock nor a suspended machine looks like a hang.
            entry.beat, entry.beat_at = beat.text, now
            entry.state, entry.detail = beat.state, beat.detail
        silent_seconds = None if entry.beat_at is None else now - entry.beat_at
        if entry.running is not None and is_hung(self._policy, now - entry.started_at, silent_seconds):
            process = find_process(entry.running.pid, entry.running.created)
            if process is not None:
                kill_tree(process)
            entry.detail = f"was killed: no heartbeat for {self._policy.hung_seconds:g} s"

    def _ended(self, entry: _Entry, exit_code: int, now: float) -> None:
        beat = read_heartbeat(entry.spec.ready) if entry.spec.ready is not None else None
        reason = (beat.detail if beat is not None else "") or tail(self.log(entry.spec.name), 1)
        hung = entry.detail if entry.detail.startswith("was killed") else ""
        entry.running = None
        entry.detail = hung or f"{describe_exit(exit_code)}: {reason}".removesuffix(": ")
        verdict = after_exit(self._policy, exit_code, entry.failures, now - entry.started_at)
        if isinstance(verdict, GiveUp):
            entry.state, entry.wanted = State.FAILED, False
        elif not entry.restart:
            entry.state, entry.wanted = State.STOPPED, False
        else:
            entry.state, entry.failures = State.BACKING_OFF, verdict.failures
            entry.start_again_at = now + verdict.delay_seconds


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a worker said last about itself."""

    state: State
    detail: str
    text: str


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return the heartbeat in a file, or None when there is none that can be read."""
    try:
        text = path.read_text()
        content = json.loads(text)
        return Heartbeat(state=State(content["state"]), detail=str(content.get("detail") or ""), text=text)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe_exit(exit_code: int) -> str:
    """Say how a process ended."""
    if exit_code >= 0:
        return f"ended with code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"
