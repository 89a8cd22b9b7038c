"""Ends every process of a stack when its supervisor is gone, also when that was killed without warning.

Started by ``infra.processes`` as ``python -I guardian.py MARKER SUPERVISOR_PID`` with a pipe as standard input that only
the supervisor holds. Every process of the stack, and whatever those start, carries MARKER in its environment. The
guardian never ends anything while the supervisor lives.
"""

import os
import select
import signal
import sys
import time

import psutil

MARKER_VARIABLE = "ENGRAM_SUPERVISED_BY"
ROUNDS = 50
PAUSE_SECONDS = 0.1
LOOK_SECONDS = 1.0


def marked(marker: str) -> list[psutil.Process]:
    """Return the processes whose environment carries a marker that begins with ``marker``, but not this one."""
    found = []
    for process in psutil.process_iter():
        try:
            value = process.environ().get(MARKER_VARIABLE, "")
            running = process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            continue
        if value.startswith(marker) and running and process.pid != os.getpid():
            found.append(process)
    return found


def end_marked(marker: str) -> int:
    """Kill every marked process and whatever it starts meanwhile; returns how many were found."""
    ended = 0
    for _ in range(ROUNDS):
        processes = marked(marker)
        if not processes:
            return ended
        ended += len(processes)
        for process in processes:
            for each in [process, *_children(process)]:
                try:
                    each.kill()
                except psutil.Error:
                    continue
        # Looking again, not psutil's waiting: that would collect the exit codes of children which somebody else awaits.
        time.sleep(PAUSE_SECONDS)
    return ended


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def wait_for_end(supervisor: int) -> None:
    """Return when the pipe from the supervisor is closed or the supervisor is no longer the parent."""
    while os.getppid() == supervisor:
        readable, _, _ = select.select([sys.stdin.fileno()], [], [], LOOK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            return


def main() -> None:
    """Wait for the end of the supervisor, then end what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    marker, supervisor = sys.argv[1], int(sys.argv[2])
    wait_for_end(supervisor)
    if end_marked(marker):
        # A process may have been between fork and exec, not yet carrying the marker.
        time.sleep(PAUSE_SECONDS)
        end_marked(marker)


if __name__ == "__main__":
    main()
