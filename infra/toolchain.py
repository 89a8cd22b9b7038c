"""Names the programs that the local stack needs from the machine, and says in one sentence which is missing.

Owned by ``infra``; called by the recipes of the servers before anything is fetched or built. It installs nothing.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from schemas.errors import Misconfigured

PACKAGES = {
    "java": "openjdk-17-jdk-headless (or default-jdk-headless)",
    "mvn": "maven",
    "go": "golang-go",
    "cargo": "rustup (or cargo and rustc)",
    "rustc": "rustup (or cargo and rustc)",
    "cc": "build-essential",
    "useradd": "passwd",
}
PLACES = ("~/.cargo/bin", "/usr/local/go/bin")
OTHER_WAY = "or run everything in containers with `docker compose up`"
OLDEST_JAVA = 17


def find_tool(name: str) -> str | None:
    """Return the path of a program, also where Go and Rust install theirs without touching PATH; else None."""
    places = [os.environ.get("PATH", ""), *(str(Path(place).expanduser()) for place in PLACES)]
    return shutil.which(name, path=os.pathsep.join(places))


def require_tools(names: Iterable[str], purpose: str) -> None:
    """Raise ``Misconfigured`` with one sentence that names every missing program and the package that brings it."""
    missing = [name for name in names if find_tool(name) is None]
    if missing:
        listed = " and ".join(f"`{name}` (Debian package {PACKAGES[name]})" for name in missing)
        raise Misconfigured(f"{purpose} needs {listed}, not found on this machine: install it, {OTHER_WAY}.")
    if "java" in names:
        require_java(purpose)


def require_java(purpose: str) -> None:
    """Raise ``Misconfigured`` when the Java on the path is older than the servers need, or has no compiler."""
    command = find_tool("java")
    if command is None:
        require_tools(["java"], purpose)
        return
    completed = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    version = java_major_version(completed.stderr)
    if version is not None and version < OLDEST_JAVA:
        raise Misconfigured(
            f"{purpose} needs Java {OLDEST_JAVA} or newer, found {version}:"
            f" install Debian package {PACKAGES['java']}, {OTHER_WAY}."
        )


def java_major_version(text: str) -> int | None:
    """Return the feature release named in the output of ``java -version``, or None when it names none."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def search_path() -> str:
    """Return a PATH under which the tools found by ``find_tool`` also find each other."""
    places = [os.environ.get("PATH", "")]
    for name in PACKAGES:
        tool = find_tool(name)
        if tool is not None and str(Path(tool).parent) not in os.pathsep.join(places).split(os.pathsep):
            places.append(str(Path(tool).parent))
    return os.pathsep.join(places)
