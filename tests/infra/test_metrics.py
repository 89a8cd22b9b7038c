"""A worker's metrics and health: what is shown when, and that a loop that hangs is seen from outside."""

import time
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from test_standstill import asked

from infra.health import alive, ready
from infra.last_run import read_last_run, write_last_run
from infra.metrics import Metrics, serving
from infra.state import free_port
from reconcile.report import Report, StoreReport
from streams.heartbeat import Heartbeat


@pytest.mark.parametrize(
    ("state", "silent", "is_alive", "is_ready"),
    [
        ("starting", 0, True, False),
        ("ready", 29, True, True),
        ("ready", 31, False, False),
        ("waiting", 0, True, False),
        ("stopping", 0, False, False),
    ],
)
def test_alive_is_a_turning_loop_and_ready_is_more(state: str, silent: float, is_alive: bool, is_ready: bool) -> None:
    assert (alive(state, "", silent).good, ready(state, "", silent).good) == (is_alive, is_ready)
    assert "hung" in alive(state, "", 31).reason


def test_the_server_tells_state_and_counters_as_they_are_now() -> None:
    heartbeat = Heartbeat(None, "relay")
    metrics, port, counts = Metrics(heartbeat), free_port(set()), {("a",): 1.0}
    metrics.show("engram_test", "A counter.", ("kind",), lambda: counts, counter=True)
    with serving(metrics, "127.0.0.1", port) as served:
        assert served == port
        assert asked(port, "/readyz") == (503, "starting\n")
        heartbeat.set("waiting", "Kafka 不回答")
        assert asked(port, "/readyz") == (503, "waiting: Kafka 不回答\n")
        assert asked(port, "/healthz")[0] == 200
        counts["a",] = 7.0
        assert 'engram_test_total{kind="a"} 7.0' in asked(port, "/metrics")[1]
        assert 'engram_state{role="relay",state="waiting"} 1.0' in asked(port, "/metrics")[1]
        with serving(metrics, "127.0.0.1", port) as second:
            assert second == 0  # A port that is taken stops nobody.
    with pytest.raises(URLError):
        urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2)


def test_nothing_is_served_without_a_port() -> None:
    with serving(Metrics(Heartbeat(None, "relay")), "127.0.0.1", 0) as served:
        assert served == 0


async def test_the_heartbeat_knows_how_long_the_loop_has_been_silent() -> None:
    heartbeat = Heartbeat(None, "relay")
    time.sleep(0.2)
    assert 0.2 <= heartbeat.silent_seconds() < 5


def test_the_last_comparison_of_each_store_is_kept_for_metrics(tmp_path) -> None:  # type: ignore[no-untyped-def]
    def report(store: str, missing: int) -> Report:
        one = StoreReport(
            store=store,
            generation=1,
            checked=9,
            missing=missing,
            stale=0,
            orphan=0,
            suspects=0,
            repair_enqueued=0,
            seconds=0.1,
        )
        return Report(deep=False, stores=(one,))

    assert read_last_run(tmp_path) == {}
    write_last_run(tmp_path, report("milvus", 2))
    write_last_run(tmp_path, report("neo4j", 0))
    write_last_run(tmp_path, report("milvus", 1))
    assert {store: run.drift["missing"] for store, run in read_last_run(tmp_path).items()} == {"milvus": 1, "neo4j": 0}
    (tmp_path / "reconcile.json").write_text("half a")
    assert read_last_run(tmp_path) == {}
