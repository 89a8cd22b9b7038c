"""The raw rate of InfluxDB: the client's synchronous writer, given lines of text.

Called by the groups ``projectors`` and ``rebuild`` with the points that a projector wrote.
"""

import time
from collections.abc import Sequence

from influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS

from bench.recorded import Step
from projectors.line_protocol import lines
from schemas.settings import Settings


def load(settings: Settings, database: str, steps: Sequence[Step]) -> float:
    """Return the seconds for the steps into an empty database; the lines are made before the clock runs."""
    batches = [lines(step) for step in steps if step is not None]
    client = InfluxDBClient(
        url=settings.influx_url, token=settings.influx_token.get_secret_value(), org=settings.influx_org, timeout=60_000
    )
    try:
        writer = client.write_api(write_options=SYNCHRONOUS)
        began = time.perf_counter()
        for batch in batches:
            writer.write(bucket=database, org=settings.influx_org, record=batch, write_precision="ns")
        return time.perf_counter() - began
    finally:
        client.close()
