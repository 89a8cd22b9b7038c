import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from infra.guardian import marked
from infra.processes import LOG_LIMIT_BYTES, Family, ProcessSpec, rotate
from infra.state import StateDirectory

PROGRAM = Path(__file__).with_name("stack_program.py")
CHECKOUT = Path(__file__).parents[2]
WAIT_SECONDS = 40.0
SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")


def wait_until(condition: object, seconds: float = WAIT_SECONDS) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def start_stack(root: Path, behaviour: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, str(PROGRAM), str(root), behaviour]
    popen = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: popen.poll() is not None or running_workers(root))
    return popen


def running_workers(root: Path) -> list[int]:
    content = StateDirectory(root).snapshot() or {}
    return [entry["pid"] for entry in content.get("processes", []) if entry["state"] == "ready"]


def test_sigkill_of_the_supervisor_leaves_nothing(tmp_path: Path) -> None:
    popen = start_stack(tmp_path, "parent")
    [pid] = running_workers(tmp_path)
    below = int((tmp_path / "child").read_text())
    popen.kill()
    popen.communicate()
    # The grandchild has a session of its own and no tie to the supervisor: only the guardian reaches it.
    wait_until(lambda: gone(pid) and gone(below), 10.0)
    wait_until(lambda: not marked(f"{tmp_path}|"), 10.0)


def test_a_clean_stop_leaves_nothing_and_frees_the_directory(tmp_path: Path) -> None:
    popen = start_stack(tmp_path, "parent")
    [pid] = running_workers(tmp_path)
    below = int((tmp_path / "child").read_text())
    popen.send_signal(signal.SIGINT)
    output, _ = popen.communicate(timeout=WAIT_SECONDS)
    assert popen.returncode == 0, output
    assert "Stopping." in output
    assert gone(pid)
    assert gone(below)
    assert StateDirectory(tmp_path).owner() is None


def test_a_second_stack_on_the_directory_is_refused(tmp_path: Path) -> None:
    popen = start_stack(tmp_path, "well")
    second = start_stack(tmp_path, "well")
    output, _ = second.communicate(timeout=WAIT_SECONDS)
    assert second.returncode != 0
    assert f"A stack already runs on {tmp_path} (process {popen.pid})" in output
    assert running_workers(tmp_path)
    popen.terminate()
    popen.communicate(timeout=WAIT_SECONDS)


def test_leftovers_are_ended_by_pid_and_start_time(tmp_path: Path) -> None:
    mine = subprocess.Popen(SLEEPER)
    other = subprocess.Popen(SLEEPER)
    created = psutil.Process(mine.pid).create_time()
    # The second record names a living process that started at another time: the pid now belongs to somebody else.
    ended = Family(tmp_path).end_leftovers([(mine.pid, created), (other.pid, created - 100.0)])
    assert ended == 1
    assert mine.wait(10) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()


def test_leftovers_are_found_by_their_mark_without_any_record(tmp_path: Path) -> None:
    old, stranger = Family(tmp_path / "mine"), Family(tmp_path / "mine-too")
    left = old.spawn(ProcessSpec("left", SLEEPER), tmp_path / "left.log")
    kept = stranger.spawn(ProcessSpec("kept", SLEEPER), tmp_path / "kept.log")
    wait_until(lambda: len(marked(stranger.origin)) == 1)
    assert Family(tmp_path / "mine").end_leftovers([]) == 1
    assert left.popen.wait(10) == -signal.SIGKILL
    assert kept.exit_code() is None
    kept.popen.kill()
    kept.popen.wait()


def test_a_log_beyond_the_limit_is_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_bytes(b"x" * LOG_LIMIT_BYTES)
    rotate(log)
    assert log.exists()
    with log.open("ab") as handle:
        handle.write(b"x")
    rotate(log)
    assert not log.exists()
    assert (tmp_path / "one.log.1").stat().st_size == LOG_LIMIT_BYTES + 1
