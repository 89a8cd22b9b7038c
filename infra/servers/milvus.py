"""Runs Milvus Lite as a gRPC server that several processes share, from its Python package.

Owned by ``infra``; called by ``LocalStack``. It creates no collections.
"""

import signal
import sys
from importlib.metadata import version

from pymilvus import MilvusClient

from infra.artifacts import Artifact
from infra.servers.contract import CHECK_SECONDS, Launch, Site
from projectors.milvus import QUIET


class Milvus:
    """The vectors."""

    name = "milvus"
    version = version("milvus-lite")
    ports = ("milvus",)
    tools = ()

    def artifact(self) -> Artifact | None:
        """Come with a Python package."""
        return None

    def arrange(self, site: Site) -> Launch:
        """Say how to start; the server makes its data directory itself."""
        command = (sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(site.directory / "data"))
        place = ("--host", "127.0.0.1", "--port", str(site.ports["milvus"]), "--max-workers", "16")
        # It closes its files on SIGINT only.
        return Launch(command=command + place, stop_signal=signal.SIGINT)

    def check(self, site: Site) -> None:
        """List the collections."""
        client = MilvusClient(self._uri(site), timeout=CHECK_SECONDS, grpc_options=QUIET)
        try:
            client.list_collections(timeout=CHECK_SECONDS)
        finally:
            client.close()

    def settle(self, site: Site) -> None:
        """Nothing needs the running server."""

    def environment(self, site: Site) -> dict[str, str]:
        """Tell clients where it is."""
        return {"ENGRAM_MILVUS_URI": self._uri(site)}

    def _uri(self, site: Site) -> str:
        return f"http://127.0.0.1:{site.ports['milvus']}"
