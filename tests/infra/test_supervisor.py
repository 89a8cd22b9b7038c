import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.lifecycle import Policy, State
from infra.processes import Family, ProcessSpec
from infra.supervisor import ProcessStatus, Supervisor

WORKER = Path(__file__).with_name("worker_program.py")
WAIT_SECONDS = 30.0


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    family = Family(tmp_path)
    family.open()
    policy = Policy(first_delay_seconds=0.05, last_delay_seconds=0.4, hung_seconds=1.0, tick_seconds=0.02)
    supervised = Supervisor(family, tmp_path, policy=policy)
    supervised.open()
    yield supervised
    supervised.stop([status.name for status in supervised.statuses()])
    supervised.close()
    family.close()


def worker(folder: Path, behaviour: str, name: str = "one", **options: object) -> ProcessSpec:
    heartbeat = folder / f"{name}.json"
    environment = {"ENGRAM_HEARTBEAT_FILE": str(heartbeat)}
    command = (sys.executable, str(WORKER), behaviour)
    return ProcessSpec(name, command, environment, ready=heartbeat, **options)  # type: ignore[arg-type]


def one(supervisor: Supervisor) -> ProcessStatus:
    return next(status for status in supervisor.statuses() if status.name == "one")


def wait_for(supervisor: Supervisor, state: State, restarts: int = 0) -> ProcessStatus:
    reached = supervisor.wait(
        lambda statuses: any(status.state is state and status.restarts >= restarts for status in statuses), WAIT_SECONDS
    )
    assert reached, supervisor.statuses()
    return one(supervisor)


def test_a_killed_process_is_started_again(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "well"))
    first = wait_for(supervisor, State.READY)
    supervisor.kill("one")
    again = wait_for(supervisor, State.READY, restarts=1)
    assert again.restarts == 1
    assert again.pid != first.pid


def test_a_process_that_always_fails_is_tried_again_with_its_reason(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "crash"))
    status = wait_for(supervisor, State.BACKING_OFF, restarts=3)
    assert status.detail.startswith("ended with code 3")


def test_a_wrong_setting_is_shown_and_not_tried_again(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "misconfigured"))
    status = wait_for(supervisor, State.FAILED)
    assert status.detail == "ended with code 78: ENGRAM_EMBEDDER is wrong"
    assert not supervisor.wait(lambda statuses: statuses[0].state is not State.FAILED, 0.5)
    assert one(supervisor).restarts == 0


def test_a_process_whose_heartbeat_stops_is_killed_and_started_again(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "silent"))
    hung = wait_for(supervisor, State.READY)
    status = wait_for(supervisor, State.BACKING_OFF)
    assert status.detail == "was killed: no heartbeat for 1 s"
    assert hung.pid is not None
    assert not psutil.pid_exists(hung.pid)
    assert wait_for(supervisor, State.READY, restarts=1).restarts == 1


def test_a_frozen_process_counts_as_hung(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "well"))
    wait_for(supervisor, State.READY)
    supervisor.freeze("one")
    wait_for(supervisor, State.READY, restarts=1)


def test_a_short_freeze_is_survived(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "well"))
    before = wait_for(supervisor, State.READY)
    supervisor.freeze("one")
    supervisor.thaw("one")
    # Longer than the hung limit: a process that stayed frozen would have been replaced.
    assert not supervisor.wait(lambda statuses: statuses[0].pid != before.pid, 2.0)


def test_a_fault_asked_for_once_happens_once(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "crash-once", first_environment={"CRASH_NOW": "1"}))
    status = wait_for(supervisor, State.READY)
    assert status.restarts == 1


def test_a_process_that_ignores_the_signal_is_killed_in_time(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(worker(tmp_path, "stubborn", stop_seconds=0.3))
    running = wait_for(supervisor, State.READY)
    supervisor.stop(["one"])
    assert running.pid is not None
    assert not psutil.pid_exists(running.pid)
    assert one(supervisor).state is State.STOPPED


def test_without_restart_a_process_stays_down_until_started(supervisor: Supervisor, tmp_path: Path) -> None:
    spec = worker(tmp_path, "well")
    supervisor.start(spec, restart=False)
    wait_for(supervisor, State.READY)
    supervisor.kill("one")
    assert wait_for(supervisor, State.STOPPED).detail.startswith("ended by SIGKILL")
    assert not supervisor.wait(lambda statuses: statuses[0].state is not State.STOPPED, 0.5)
    supervisor.start(spec, restart=False)
    wait_for(supervisor, State.READY)


def test_a_command_that_does_not_exist_is_named(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(ProcessSpec("one", ("/nowhere/engram-nothing",)))
    assert "/nowhere/engram-nothing cannot be started" in wait_for(supervisor, State.BACKING_OFF).detail
