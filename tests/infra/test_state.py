import base64
import os
import socket
import stat
from pathlib import Path

import pytest

from infra.state import PORT_RANGE, StateDirectory, free_port, is_free, new_cluster_id
from schemas.errors import Misconfigured


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    directory = StateDirectory(tmp_path / "state")
    directory.create()
    return directory


def listen(port: int) -> socket.socket:
    taken = socket.socket()
    taken.bind(("127.0.0.1", port))
    taken.listen()
    return taken


def test_ports_are_remembered_while_they_are_free(state: StateDirectory) -> None:
    names = ["kafka.broker", "kafka.controller", "influx.http"]
    first = state.ports(names)
    assert len(set(first.values())) == 3
    assert all(port in PORT_RANGE for port in first.values())
    assert StateDirectory(state.root).ports(names) == first


def test_a_port_that_somebody_took_is_replaced_and_the_new_one_remembered(state: StateDirectory) -> None:
    first = state.ports(["kafka.broker", "influx.http"])
    with listen(first["kafka.broker"]):
        second = state.ports(["kafka.broker", "influx.http"])
    assert second["kafka.broker"] != first["kafka.broker"]
    assert second["influx.http"] == first["influx.http"]
    assert state.ports(["kafka.broker"])["kafka.broker"] == second["kafka.broker"]


def test_a_port_with_a_listener_is_not_free() -> None:
    port = free_port(set())
    with listen(port):
        assert not is_free(port)
    assert is_free(port)


def test_secrets_are_made_once_and_only_the_owner_reads_them(state: StateDirectory) -> None:
    secrets = state.secrets()
    assert state.secrets() == secrets
    assert stat.S_IMODE((state.root / "secrets.json").stat().st_mode) == 0o600
    assert len(base64.urlsafe_b64decode(secrets.master_key)) == 32
    assert len(set(vars_of(secrets))) == 6


def vars_of(secrets: object) -> list[str]:
    return [getattr(secrets, name) for name in type(secrets).__struct_fields__]  # type: ignore[attr-defined]


def test_the_environment_survives_quoting(state: StateDirectory) -> None:
    variables = {"ENGRAM_INFLUX_TOKEN": "engram:a b'c\"$d", "ENGRAM_STATE_DIR": str(state.root)}
    state.write_environment(variables)
    assert state.environment() == variables
    assert stat.S_IMODE((state.root / "environment").stat().st_mode) == 0o600


def test_one_owner_at_a_time(state: StateDirectory) -> None:
    state.acquire()
    assert state.owner() == os.getpid()
    with pytest.raises(Misconfigured, match="engram down"):
        StateDirectory(state.root).acquire()
    state.release()
    assert state.owner() is None
    other = StateDirectory(state.root)
    other.acquire()
    other.release()


def test_a_cluster_id_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\xf8" + b"\x00" * 15, b"\xfb" + b"\x00" * 15, b"\x01" * 16])
    monkeypatch.setattr("infra.state.secrets.token_bytes", lambda _: next(drawn))
    assert new_cluster_id() == "AQEBAQEBAQEBAQEBAQEBAQ"
