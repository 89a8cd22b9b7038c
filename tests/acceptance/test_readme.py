"""The README's commands, run as they stand there, against a stack that ``engram up`` started in a folder of its own."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGRAM = (sys.executable, "-m", "infra.cli")
START_SECONDS = 240.0


def commands_of(heading: str) -> list[str]:
    """Return the commands in the shell blocks below a heading of the README."""
    section = (ROOT / "README.md").read_text("utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def engram(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    assert words[0] == "engram"
    return subprocess.run(
        [*ENGRAM, *words[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=200
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run ``engram up`` in a new state directory until the module's tests are over."""
    state = tmp_path_factory.mktemp("readme") / "state"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    environment = clean | {"ENGRAM_STATE_DIR": str(state), "ENGRAM_DRAIN_SECONDS": "1", "COLUMNS": "300"}
    log = (state.parent / "up.log").open("w+")
    up = subprocess.Popen([*ENGRAM, "up"], cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_SECONDS
        while engram("engram status", environment).returncode != 0:
            log.seek(0)
            assert up.poll() is None, log.read()
            assert time.monotonic() < deadline, log.read() + engram("engram status", environment).stdout
        yield environment
    finally:
        if up.poll() is None:
            up.send_signal(signal.SIGINT)
            up.wait(60)
        log.close()


@pytest.mark.stack
@pytest.mark.timeout(600)
def test_every_command_of_the_readme_works(running: dict[str, str]) -> None:
    commands = commands_of("Run it")
    assert commands[0] == "engram up"
    assert commands[-1] == "engram down"
    said = {}
    for command in commands[1:]:
        done = engram(command, running)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        said[command] = done.stdout
    recalled = next(text for command, text in said.items() if command.startswith("engram recall"))
    assert "花生" in recalled
    reconciled = next(text for command, text in said.items() if command.startswith("engram reconcile"))
    assert "0 differences" in reconciled
    assert engram("engram status", running).returncode == 1


def test_the_readme_names_the_two_commands() -> None:
    assert commands_of("Two commands") == ["make demo", "make test"]
    targets = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:", targets, re.MULTILINE)
    assert re.search(r"^test:", targets, re.MULTILINE)
