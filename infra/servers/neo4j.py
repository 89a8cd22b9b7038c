"""Runs Neo4j Community from the jars of its Maven artifact, with a small main class of our own.

Owned by ``infra``; called by ``LocalStack``. It sets the password on the first start and creates no schema.
"""

import hashlib
import os
import subprocess
from pathlib import Path
from typing import LiteralString

import neo4j
from neo4j.exceptions import AuthError

from infra.artifacts import Artifact, maven_artifact
from infra.servers.contract import CHECK_SECONDS, Launch, Site
from infra.state import write_atomically
from infra.toolchain import find_tool
from schemas.errors import Misconfigured

VERSION = "5.26.19"
JAVA = Path(__file__).parents[1] / "java"
MAIN = "Neo4jServer"
USER = "neo4j"
FIRST_PASSWORD = "neo4j"  # noqa: S105  # the product's documented first password, replaced on the first start

CONFIGURATION = """\
server.bolt.enabled=true
server.bolt.listen_address=127.0.0.1:{bolt}
server.bolt.advertised_address=127.0.0.1:{bolt}
server.http.enabled=false
server.https.enabled=false
dbms.security.auth_enabled=true
dbms.usage_report.enabled=false
server.memory.pagecache.size=128m
db.shutdown_transaction_end_timeout=2s
# Five seconds by default, in which the stopped server waits for connections that nobody can make any more.
internal.dbms.bolt.netty_server_shutdown_quiet_period=0
db.tx_log.rotation.retention_policy=256M size
"""


class Neo4j:
    """The graph."""

    name = "neo4j"
    version = VERSION
    ports = ("bolt",)
    tools = ("java",)

    def artifact(self) -> Artifact:
        """Describe the jars."""
        checksums = (JAVA / "neo4j-jars.txt").read_text()
        return maven_artifact("neo4j", VERSION, (f"org.neo4j:neo4j:{VERSION}",), checksums)

    def arrange(self, site: Site) -> Launch:
        """Write the configuration."""
        configuration = site.directory / "neo4j.conf"
        write_atomically(configuration, CONFIGURATION.format(bolt=site.ports["bolt"]).encode())
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "java.io", "sun.nio.ch")]
        # One collector thread and the quick compiler alone: half the processor time of a start, measured.
        options = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened)
        class_path = f"{site.program}/libs/*{os.pathsep}{compiled(site)}"
        command = (find_tool("java") or "java", *options, "-cp", class_path, MAIN)
        return Launch(command=(*command, str(site.directory), str(configuration)))

    def check(self, site: Site) -> None:
        """Return 1 over Bolt; before the password is set, a refused log-in is an answer too."""
        try:
            self._run(site, site.secrets.neo4j_password, "neo4j", "RETURN 1")
        except AuthError:
            if self._is_settled(site):
                raise

    def settle(self, site: Site) -> None:
        """Replace the first password, once; a start that was interrupted in between is finished here."""
        if self._is_settled(site):
            return
        try:
            change = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"
            self._run(site, FIRST_PASSWORD, "system", change, old=FIRST_PASSWORD, new=site.secrets.neo4j_password)
        except AuthError:
            self._run(site, site.secrets.neo4j_password, "neo4j", "RETURN 1")
        (site.directory / "password-is-set").touch()

    def _is_settled(self, site: Site) -> bool:
        return (site.directory / "password-is-set").exists()

    def _run(self, site: Site, password: str, database: str, statement: LiteralString, **parameters: str) -> None:
        with (
            neo4j.GraphDatabase.driver(
                self._uri(site),
                auth=(USER, password),
                connection_timeout=CHECK_SECONDS,
                connection_acquisition_timeout=CHECK_SECONDS,
                max_transaction_retry_time=CHECK_SECONDS,
            ) as driver,
            driver.session(database=database) as session,
        ):
            session.run(neo4j.Query(statement, timeout=CHECK_SECONDS), parameters).consume()

    def environment(self, site: Site) -> dict[str, str]:
        """Tell clients where it is, and the password."""
        return {
            "ENGRAM_NEO4J_URI": self._uri(site),
            "ENGRAM_NEO4J_USER": USER,
            "ENGRAM_NEO4J_PASSWORD": site.secrets.neo4j_password,
        }

    def _uri(self, site: Site) -> str:
        return f"bolt://127.0.0.1:{site.ports['bolt']}"


def compiled(site: Site) -> Path:
    """Return the folder with our compiled main class; compiles it when its source is new here."""
    source = JAVA / f"{MAIN}.java"
    target = site.directory / f"main-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not (target / f"{MAIN}.class").exists():
        compiler = (find_tool("java") or "java", "-m", "jdk.compiler/com.sun.tools.javac.Main")
        # The compiler's launcher would expand a `*`, the compiler itself does not.
        jars = os.pathsep.join(str(jar) for jar in sorted((site.program or source.parent).glob("libs/*.jar")))
        command = [*compiler, "-cp", jars, "-d", str(target), str(source)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode != 0:
            reason = completed.stderr.strip() or completed.stdout.strip()
            raise Misconfigured(f"{MAIN}.java was not compiled; a Java without a compiler is not enough: {reason}")
    return target
