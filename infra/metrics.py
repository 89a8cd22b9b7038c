"""What a worker counts, for Prometheus, and the small server that shows it: ``/metrics``, ``/healthz``, ``/readyz``.

Called by ``worker_process`` and the runners of stages, projectors and the relay. Counters that exist anyway are read when somebody
asks; only a batch's size and time are noted while working, once a batch. The server has a thread of its own, so that it answers
when the loop hangs. It asks no server anything and shows no content, tenant or user.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from infra.health import Answer, alive, ready
from schemas.errors import Rejected
from schemas.topics import Topic
from streams.heartbeat import Heartbeat
from streams.stage import Input, Refusal, Stage, StageResult

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
STATES = ("starting", "ready", "waiting", "stopping")
Source = Callable[[], Metric]
Values = Callable[[], Mapping[tuple[str, ...], float]]


class Metrics(Collector):
    """The metrics of one process; ``show`` takes a function that is called at each scrape."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._sources: dict[str, Source] = {}
        self.registry = CollectorRegistry(auto_describe=False)
        own, stage = self.registry, ("stage",)
        self.batch_inputs = Histogram(
            "engram_batch_inputs", "Inputs worked on together.", stage, buckets=BATCH_SIZES, registry=own
        )
        self.handle_seconds = Histogram(
            "engram_handle_seconds", "Time of a batch in the stage.", stage, buckets=SECONDS, registry=own
        )
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def show(self, name: str, said: str, label_names: Sequence[str], values: Values, *, counter: bool = False) -> None:
        """Show at each scrape what ``values`` then returns, by label values; it must not wait for anything.

        A second one of the same name takes the place of the first: a role that had to wait is begun again.
        """
        family = CounterMetricFamily if counter else GaugeMetricFamily

        def source() -> Metric:
            found = family(name, said, labels=label_names)
            for labels, value in values().items():
                found.add_metric(labels, value)
            return found

        self._sources[name] = source

    def collect(self) -> Iterator[Metric]:
        """Yield everything there is now; called by the library, in the server's thread."""
        state, beat = self._heartbeat.state, self._heartbeat
        states = GaugeMetricFamily("engram_state", "1 for the state that the worker is in.", labels=("role", "state"))
        for name in STATES:
            states.add_metric((beat.role, name), float(name == state))
        silent = GaugeMetricFamily("engram_loop_silent_seconds", "Time since the loop last turned.", labels=("role",))
        silent.add_metric((beat.role,), beat.silent_seconds())
        yield from (states, silent)
        for source in list(self._sources.values()):
            yield source()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Return status, content type and body for a path."""
        beat = self._heartbeat
        shown = (beat.state, beat.detail, beat.silent_seconds())
        match path.partition("?")[0]:
            case "/metrics":
                return 200, CONTENT_TYPE_LATEST, generate_latest(self.registry)
            case "/healthz":
                return _told(alive(*shown))
            case "/readyz":
                return _told(ready(*shown))
            case _:
                return 404, "text/plain; charset=utf-8", b"/metrics, /healthz or /readyz\n"


def _told(answer: Answer) -> tuple[int, str, bytes]:
    return 200 if answer.good else 503, "text/plain; charset=utf-8", f"{answer.reason}\n".encode()


@contextmanager
def serving(metrics: Metrics, host: str, port: int) -> Iterator[int]:
    """Serve ``metrics`` while entered and yield the port; port 0 serves nothing.

    A port that is taken is logged and nothing is served: a worker goes on working when nobody can look at it.
    """
    if not port:
        yield 0
        return
    try:
        server = ThreadingHTTPServer((host, port), _handler(metrics))
    except OSError as error:
        structlog.get_logger().warning("metrics are not served", host=host, port=port, reason=error.strerror)
        yield 0
        return
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _handler(metrics: Metrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            status, content_type, body = metrics.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing: a scrape every few seconds is no news."""

    return Handler


class MeasuredStage:
    """A stage with the size and the time of each batch noted; everything else is the stage's own."""

    def __init__(self, stage: Stage, metrics: Metrics) -> None:
        self._stage = stage
        self._sizes = metrics.batch_inputs.labels(stage.name)
        self._seconds = metrics.handle_seconds.labels(stage.name)

    @property
    def name(self) -> str:
        """Return the stage's name."""
        return self._stage.name

    @property
    def source(self) -> Topic:
        """Return the stage's topic."""
        return self._stage.source

    async def handle(self, inputs: Sequence[Input]) -> Sequence[StageResult | Rejected]:
        """Let the stage work, and note how many inputs took how long."""
        started = time.perf_counter()
        try:
            return await self._stage.handle(inputs)
        finally:
            self._sizes.observe(len(inputs))
            self._seconds.observe(time.perf_counter() - started)

    async def refuse(self, one: Input, error: Rejected) -> Refusal:
        """Return what follows from ``error``."""
        return await self._stage.refuse(one, error)
