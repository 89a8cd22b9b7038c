"""Starts, signals and ends operating system processes so that none outlives the stack it belongs to.

Owned by ``infra``; called by the supervisor and by ``LocalStack``. It decides nothing about when to restart what.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from infra.guardian import MARKER_VARIABLE, end_marked

LOG_LIMIT_BYTES = 20 * 1024 * 1024
TAIL_BYTES = 8 * 1024

# The kernel signals a child when the *thread* that made it ends, so one thread that lives as long as the process makes
# all children.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to run: what is started, how it shows that it works, and how it is asked to end.

    ``environment`` is laid over the supervisor's own. ``ready`` is the heartbeat file that the process rewrites about
    once a second, or None for a process that keeps none. ``user`` is the system user to run as, or None.
    ``first_environment`` is laid over ``environment`` on the first start only, not when the process is restarted: a
    fault that is asked for there happens once.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: Path | None = None
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 20.0
    first_environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Running:
    """A started process; ``created`` (seconds since the epoch, from the kernel) tells it from a later one with its pid."""

    spec: ProcessSpec
    popen: "subprocess.Popen[bytes]"
    created: float

    @property
    def pid(self) -> int:
        """The process id."""
        return self.popen.pid

    def exit_code(self) -> int | None:
        """Return the exit code (negative: the signal), or None while it runs."""
        return self.popen.poll()


class Family:
    """All processes of one supervisor: marked in their environment and watched by a guardian.

    ``marker`` is unique to this supervisor; ``origin``, its beginning, is the same for all supervisors of a state directory.
    """

    def __init__(self, root: Path) -> None:
        self.origin = f"{root}|"
        self.marker = f"{root}|{os.getpid()}.{time.monotonic_ns()}"
        self._guardian: subprocess.Popen[bytes] | None = None

    def end_leftovers(self, recorded: list[tuple[int, float]]) -> int:
        """End what an earlier supervisor of this directory left; returns how many processes that were.

        ``recorded`` are pairs of process id and start time: one whose start time differs is somebody else's.
        """
        ended = 0
        for pid, created in recorded:
            process = find_process(pid, created)
            if process is not None:
                kill_tree(process)
                ended += 1
        return ended + end_marked(self.origin)

    def open(self) -> None:
        """Start the guardian."""
        guardian = Path(__file__).with_name("guardian.py")
        command = [sys.executable, "-I", str(guardian), self.marker, str(os.getpid())]
        environment = {name: value for name, value in os.environ.items() if name != MARKER_VARIABLE}
        self._guardian = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )

    def close(self) -> None:
        """End the guardian, which first ends whatever is still there."""
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            guardian.communicate()

    def spawn(self, spec: ProcessSpec, log: Path, *, first: bool = True) -> Running:
        """Start a process with its output appended to ``log``, in a session of its own so that Ctrl-C spares it."""
        return _SPAWNER.submit(self._spawn, spec, log, first).result()

    def _spawn(self, spec: ProcessSpec, log: Path, first: bool) -> Running:
        rotate(log)
        extra = spec.first_environment if first else {}
        command = tied_command(spec.command, spec.user)
        with log.open("ab") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **spec.environment, **extra, MARKER_VARIABLE: self.marker},
            )
        return Running(spec=spec, popen=popen, created=psutil.Process(popen.pid).create_time())


def tied_command(command: Sequence[str], user: str | None = None) -> list[str]:
    """Return the command that runs ``command`` as ``user`` and lets it end with the thread that starts it."""
    child = str(Path(__file__).with_name("child.py"))
    return [sys.executable, "-I", "-S", child, str(os.getpid()), user or "-", *command]


def find_process(pid: int, created: float) -> psutil.Process | None:
    """Return the living process with this id and this start time, or None."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < 0.05 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return process if same else None


def tree(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and everything below it, parents first."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return [process]


def kill_tree(process: psutil.Process, wait_seconds: float = 10.0) -> None:
    """Kill a process and everything below it, and wait until they are gone."""
    members = tree(process)
    signal_all(members, signal.SIGKILL)
    # Not psutil.wait_procs: it would collect the exit code of our own child before its Popen does.
    deadline = time.monotonic() + wait_seconds
    while time.monotonic() < deadline and any(is_alive(member) for member in members):
        time.sleep(0.01)


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process still runs; one that ended and was not yet collected does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def signal_all(members: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for member in members:
        try:
            member.send_signal(number)
        except psutil.Error:
            continue


def signal_tree(running: Running, number: signal.Signals) -> None:
    """Send a signal to a started process and everything below it."""
    process = find_process(running.pid, running.created)
    if process is not None:
        signal_all(tree(process), number)


def ask_to_end(running: Running) -> None:
    """Send the stop signal to the process itself; a frozen one is thawed so that it can follow."""
    process = find_process(running.pid, running.created)
    if process is not None:
        signal_all([process], running.spec.stop_signal)
        signal_all(tree(process), signal.SIGCONT)


def wait_or_kill(running: Running, deadline: float) -> int:
    """Wait for the end until ``deadline`` (``time.monotonic``), then kill; returns the exit code."""
    process = find_process(running.pid, running.created)
    below = tree(process)[1:] if process is not None else []
    try:
        code = running.popen.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        if process is not None:
            kill_tree(process)
        code = running.popen.wait()
    signal_all([member for member in below if is_alive(member)], signal.SIGKILL)
    return code


def rotate(log: Path) -> None:
    """Set a log aside as ``<name>.1`` when it has grown beyond the limit."""
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_name(log.name + ".1"))


def tail(log: Path, lines: int) -> str:
    """Return the last lines of a log, or an empty text."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return "\n".join(handle.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
