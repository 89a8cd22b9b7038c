"""Runs Neo4j Community from the jars of its Maven artifact, with a small main class of our own.

Owned by ``infra``; called by ``LocalStack``. It sets the password on the first start and creates no schema.
"""

from pathlib import Path
from typing import LiteralString

import neo4j
from neo4j.exceptions import AuthError

from infra.artifacts import Artifact, maven_artifact
from infra.servers.contract import CHECK_SECONDS, Launch, Site
from infra.state import write_atomically
from infra.toolchain import find_tool

VERSION = "5.26.19"
JAVA = Path(__file__).parents[1] / "java"
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
        command = (find_tool("java") or "java", "-Xmx768m", *opened, "-cp", f"{site.program}/libs/*")
        return Launch(command=(*command, str(JAVA / "Neo4jServer.java"), str(site.directory), str(configuration)))

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
