"""The cache of fetched and built server programs: per user, by version and checksum, shared by all checkouts.

Owned by ``infra``; called by ``LocalStack.prepare``. An entry appears by one rename when it is complete, under a lock,
so that two checkouts never build the same thing at once and nobody sees half of one. It starts no server.
"""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.processes import tied_command
from infra.toolchain import find_tool, require_tools, search_path
from schemas.errors import Broken, Misconfigured

MANIFEST = "manifest.json"
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
LOG_LINES_SHOWN = 15

Report = Callable[[str], None]

_RUNNING: set["subprocess.Popen[bytes]"] = set()
_RUNNING_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Artifact:
    """A server program that can be made: ``build(target, log, report)`` fills the empty directory ``target``.

    ``recipe`` is the text of everything that decides the result; its checksum is part of the cache key, so a changed
    recipe is a new entry. ``tools`` are the programs that the build needs.
    """

    name: str
    version: str
    recipe: str
    tools: tuple[str, ...]
    build: Callable[[Path, Path, Report], None]

    @property
    def directory(self) -> Path:
        """Where the entry is, once it is there."""
        return cache_root() / f"{self.name}-{self.version}-{hashlib.sha256(self.recipe.encode()).hexdigest()[:12]}"


def cache_root() -> Path:
    """Return the cache directory of this user: ``$XDG_CACHE_HOME/engram``, by default ``~/.cache/engram``."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(configured) if configured else Path.home() / ".cache") / "engram"


def obtain(artifact: Artifact, report: Report) -> Path:
    """Return the directory of a complete, verified entry, building it when it is missing or damaged.

    Raises ``Misconfigured`` when a tool is missing and ``Broken`` when the build fails.
    """
    directory = artifact.directory
    if is_intact(directory):
        return directory
    require_tools(artifact.tools, f"Building {artifact.name} {artifact.version}")
    cache_root().mkdir(parents=True, exist_ok=True)
    with exclusive(directory.with_name(directory.name + ".lock"), report):
        if is_intact(directory):
            return directory
        scratch = Path(tempfile.mkdtemp(prefix=f".{artifact.name}-", dir=cache_root()))
        try:
            artifact.build(scratch, cache_root() / f"{artifact.name}-build.log", report)
            write_manifest(scratch)
            shutil.rmtree(directory, ignore_errors=True)
            scratch.chmod(0o755)
            scratch.rename(directory)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return directory


@contextmanager
def exclusive(path: Path, report: Report) -> Iterator[None]:
    """Hold a lock between processes; the kernel frees it when the holder ends, however it ends."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting: another stack fetches or builds")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_manifest(directory: Path) -> None:
    """Record the checksum of every file of a new entry."""
    files = {
        str(path.relative_to(directory)): checksum(path) for path in sorted(directory.rglob("*")) if path.is_file()
    }
    (directory / MANIFEST).write_text(json.dumps(files, indent=1, sort_keys=True))


def is_intact(directory: Path) -> bool:
    """Tell whether an entry is complete and every file still has its recorded checksum."""
    try:
        files: dict[str, str] = json.loads((directory / MANIFEST).read_text())
        return all(checksum(directory / name) == digest for name, digest in files.items())
    except (OSError, ValueError):
        return False


def end_builds() -> None:
    """Kill every build that runs now, with all it started; each then fails where it was called."""
    with _RUNNING_LOCK:
        for popen in _RUNNING:
            if popen.poll() is None:
                os.killpg(popen.pid, signal.SIGKILL)


def run_step(command: list[str], log: Path, *, environment: Mapping[str, str] | None = None) -> None:
    """Run one build command with its output in ``log``; raises ``Broken`` with the last lines when it fails."""
    tool = find_tool(command[0])
    if tool is None:
        raise Misconfigured(f"`{command[0]}` was not found on this machine.")
    with log.open("ab") as output, _RUNNING_LOCK:
        popen = subprocess.Popen(
            tied_command([tool, *command[1:]]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PATH": search_path(), **(environment or {})},
        )
        _RUNNING.add(popen)
    try:
        exit_code = popen.wait()
    finally:
        with _RUNNING_LOCK:
            _RUNNING.discard(popen)
    if exit_code != 0:
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        raise Broken(f"`{' '.join(command[:3])}` failed (all of it in {log}):\n" + "\n".join(lines))


def maven_artifact(name: str, version: str, coordinates: tuple[str, ...], checksums: str) -> Artifact:
    """Describe the jars that Maven resolves for ``coordinates`` (``group:artifact:version``), under ``libs/``.

    ``checksums`` has one line ``<sha256>  <file name>`` for every jar; a jar that differs is refused, and a jar that
    is not listed never gets on a class path.
    """
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *coordinate.split(":")
        )
        for coordinate in coordinates
    )
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>engram</groupId><artifactId>{name}</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )

    def build(target: Path, log: Path, report: Report) -> None:
        # Maven's local repository does not bear two writers, so only one Maven runs at a time for one user.
        with exclusive(cache_root() / "maven.lock", report):
            report("fetching jars with Maven")
            (target / "pom.xml").write_text(pom)
            log.write_bytes(b"")
            command = ["mvn", "-q", "-B", "-f", str(target / "pom.xml"), DEPENDENCY_PLUGIN]
            run_step([*command, "-DincludeScope=runtime", f"-DoutputDirectory={target / 'libs'}"], log)
        keep_listed(target / "libs", checksums)

    return Artifact(name=name, version=version, recipe=pom + checksums, tools=("java", "mvn"), build=build)


def keep_listed(directory: Path, checksums: str) -> None:
    """Remove every file that is not listed and raise ``Broken`` when a listed one is missing or differs."""
    listed = {name: digest for digest, name in (line.split() for line in checksums.splitlines() if line.strip())}
    for path in directory.iterdir():
        if path.name not in listed:
            path.unlink()
    for name, digest in listed.items():
        if not (directory / name).is_file():
            raise Broken(f"Maven did not deliver {name}.")
        if checksum(directory / name) != digest:
            raise Broken(f"The checksum of {name} is not the recorded one; it was not used.")
