"""Runs Kafka: one process that is broker and controller (KRaft), from the jars of its Maven artifact.

Owned by ``infra``; called by ``LocalStack``. It creates no topics.
"""

import asyncio
import subprocess
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient

from infra.artifacts import Artifact, maven_artifact
from infra.servers.contract import CHECK_SECONDS, Launch, Site
from infra.state import write_atomically
from infra.toolchain import find_tool
from schemas.errors import Broken, Retryable

VERSION = "4.3.1"
COORDINATES = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
CHECKSUMS = Path(__file__).parents[1] / "java" / "kafka-jars.txt"

# 8 MiB is the largest text of a stage; encryption, Avro and headers come on top.
MESSAGE_LIMIT_BYTES = 8 * 1024 * 1024 + 256 * 1024
YEAR_MINUTES = 365 * 24 * 60

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
delete.topic.enable=true
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
offsets.retention.minutes={retention}
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
# A killed broker may come back when its old session has run out: 9 s by default.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
message.max.bytes={message}
replica.fetch.max.bytes={message}
log.retention.ms=-1
log.cleaner.enable=true
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=2
num.io.threads=4
num.recovery.threads.per.data.dir=2
"""


class Kafka:
    """The event log."""

    name = "kafka"
    version = VERSION
    ports = ("broker", "controller")
    tools = ("java",)

    def artifact(self) -> Artifact:
        """Describe the jars."""
        return maven_artifact("kafka", VERSION, COORDINATES, CHECKSUMS.read_text())

    def arrange(self, site: Site) -> Launch:
        """Write the properties, format the log directory on the first start."""
        properties, data = site.directory / "server.properties", site.directory / "data"
        text = PROPERTIES.format(
            broker=site.ports["broker"],
            controller=site.ports["controller"],
            data=data,
            retention=YEAR_MINUTES,
            message=MESSAGE_LIMIT_BYTES,
        )
        write_atomically(properties, text.encode())
        if not (data / "meta.properties").exists():
            self._format(site, properties)
        # Compiling well costs more here than it gives back: on two cores the second compiler takes what the workers need.
        options = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return Launch(command=(*_java(site), *options, "kafka.Kafka", str(properties)))

    def _format(self, site: Site, properties: Path) -> None:
        command = [
            *_java(site),
            "-XX:TieredStopAtLevel=1",
            "kafka.tools.StorageTool",
            "format",
            "-t",
            site.secrets.kafka_cluster_id,
        ]
        completed = subprocess.run([*command, "-c", str(properties)], capture_output=True, text=True, check=False)
        if completed.returncode != 0:
            raise Broken(f"Kafka could not format its log directory: {completed.stderr or completed.stdout}")

    def check(self, site: Site) -> None:
        """Request the metadata of the cluster."""
        asyncio.run(_request_metadata(f"127.0.0.1:{site.ports['broker']}"))

    def settle(self, site: Site) -> None:
        """Nothing needs the running broker."""

    def environment(self, site: Site) -> dict[str, str]:
        """Tell clients where the broker is."""
        return {"ENGRAM_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{site.ports['broker']}"}


def _java(site: Site) -> tuple[str, ...]:
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return (find_tool("java") or "java", logging, "-cp", f"{site.program}/libs/*")


async def _request_metadata(address: str) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=address, request_timeout_ms=int(CHECK_SECONDS * 1000))
    try:
        await asyncio.wait_for(client.start(), CHECK_SECONDS)
        cluster = await asyncio.wait_for(client.describe_cluster(), CHECK_SECONDS)
    finally:
        await client.close()
    if not cluster["brokers"]:
        raise Retryable("Kafka has no broker in its metadata yet.")
