from pathlib import Path

import pytest

from infra import toolchain
from infra.servers.influx import Influx
from infra.servers.kafka import Kafka
from infra.stack import LocalStack
from infra.toolchain import java_major_version, require_tools
from schemas.errors import Misconfigured


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty PATH, an empty home and an empty cache."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "PLACES", ())
    return programs


def add_program(folder: Path, name: str, text: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_every_missing_tool_is_named_with_its_package_and_the_other_way(bare_machine: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        require_tools(["java", "mvn"], "Running Kafka")
    assert str(caught.value) == (
        "Running Kafka needs `java` (Debian package openjdk-17-jdk-headless (or default-jdk-headless)) and `mvn`"
        " (Debian package maven), not found on this machine: install it, or run everything in containers with"
        " `docker compose up`."
    )


def test_kafka_without_java_is_refused_before_anything_is_fetched(bare_machine: Path, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"Running kafka .* needs `java`"):
        LocalStack(tmp_path / "state", servers=[Kafka()]).prepare()
    assert not (tmp_path / "cache").exists()


def test_influx_without_compilers_names_all_of_them(bare_machine: Path, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        LocalStack(tmp_path / "state", servers=[Influx()]).prepare()
    for tool, package in {"go": "golang-go", "cargo": "rustup", "cc": "build-essential"}.items():
        assert f"`{tool}` (Debian package {package}" in str(caught.value)


def test_an_old_java_is_named_with_its_version(bare_machine: Path) -> None:
    add_program(bare_machine, "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    with pytest.raises(Misconfigured, match="needs Java 17 or newer, found 11"):
        require_tools(["java"], "Running Neo4j")


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_391"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("Picked up JAVA_TOOL_OPTIONS", None),
    ],
)
def test_java_version(text: str, major: int | None) -> None:
    assert java_major_version(text) == major
