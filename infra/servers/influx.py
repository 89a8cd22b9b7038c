"""Runs InfluxDB 1.13, built from its Go module, which speaks the interface of version 2 that the client library uses.

Owned by ``infra``; called by ``LocalStack``. It makes the one user and creates no databases.
"""

import http
import http.client
import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from infra.artifacts import Artifact, Report, run_step
from infra.servers.contract import CHECK_SECONDS, Launch, Site
from infra.state import write_private
from schemas.errors import Retryable

VERSION = "1.13.2"
USER = "engram"
ORGANISATION = "engram"
PKG_CONFIG = "github.com/influxdata/pkg-config@v0.2.7"
INFLUXD = f"github.com/influxdata/influxdb/cmd/influxd@v{VERSION}"

Headers = Mapping[str, str]
NO_HEADERS: Headers = MappingProxyType({})

CONFIGURATION = """\
reporting-disabled = true
bind-address = "127.0.0.1:{backup}"

[meta]
  dir = "{directory}/meta"

[data]
  dir = "{directory}/data"
  wal-dir = "{directory}/wal"
  index-version = "tsi1"
  max-series-per-database = 0
  max-values-per-tag = 0
  query-log-enabled = false

[http]
  bind-address = "127.0.0.1:{http}"
  auth-enabled = true
  flux-enabled = true
  log-enabled = false
  max-body-size = 0

[logging]
  level = "warn"
  suppress-logo = true

[monitor]
  store-enabled = false
"""


class Influx:
    """The history of sessions."""

    name = "influx"
    version = VERSION
    ports = ("http", "backup")
    tools = ()

    def artifact(self) -> Artifact:
        """Describe the build: Go compiles the server, Rust the query engine in it."""
        return Artifact(
            name="influxdb",
            version=VERSION,
            recipe=f"{PKG_CONFIG}\n{INFLUXD}\n",
            tools=("go", "cargo", "rustc", "cc"),
            build=_build,
        )

    def arrange(self, site: Site) -> Launch:
        """Write the configuration."""
        configuration = site.directory / "influxdb.conf"
        text = CONFIGURATION.format(directory=site.directory, http=site.ports["http"], backup=site.ports["backup"])
        write_private(configuration, text.encode())
        return Launch(command=(f"{site.program}/influxd", "run", "-config", str(configuration)))

    def check(self, site: Site) -> None:
        """Ping it."""
        self._request(site, "GET", "/ping")

    def settle(self, site: Site) -> None:
        """Make the user, which is allowed without a log-in only while there is none; then log in as it."""
        password = site.secrets.influx_password
        statement = f"CREATE USER {USER} WITH PASSWORD '{password}' WITH ALL PRIVILEGES"
        try:
            self._query(site, "SHOW DATABASES", token=f"{USER}:{password}")
        except Retryable:
            self._query(site, statement)
            self._query(site, "SHOW DATABASES", token=f"{USER}:{password}")

    def _query(self, site: Site, statement: str, token: str = "") -> None:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if token:
            headers["Authorization"] = f"Token {token}"
        self._request(site, "POST", "/query", urllib.parse.urlencode({"q": statement}), headers)

    def _request(
        self, site: Site, method: str, path: str, body: str | None = None, headers: Headers = NO_HEADERS
    ) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", site.ports["http"], timeout=CHECK_SECONDS)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Retryable(f"InfluxDB did not answer {path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise Retryable(f"InfluxDB answered {path} with status {answer.status}: {content.decode(errors='replace')}")
        failed = [result["error"] for result in json.loads(content)["results"] if "error" in result] if content else []
        if failed:
            raise Retryable(f"InfluxDB refused a statement: {failed[0]}")

    def environment(self, site: Site) -> dict[str, str]:
        """Tell clients where it is, and the token, which in version 1 is user and password."""
        return {
            "ENGRAM_INFLUX_URL": f"http://127.0.0.1:{site.ports['http']}",
            "ENGRAM_INFLUX_TOKEN": f"{USER}:{site.secrets.influx_password}",
            "ENGRAM_INFLUX_ORG": ORGANISATION,
        }


def _build(target: Path, log: Path, report: Report) -> None:
    log.write_bytes(b"")
    environment = {"GOBIN": str(target), "RUSTUP_TOOLCHAIN": "stable", "CGO_ENABLED": "1"}
    report("building InfluxDB's build tool")
    run_step(["go", "install", PKG_CONFIG], log, environment=environment)
    report("building InfluxDB with Go and Rust, once, two to four minutes")
    run_step(["go", "install", INFLUXD], log, environment={**environment, "PKG_CONFIG": str(target / "pkg-config")})
    (target / "pkg-config").unlink()
