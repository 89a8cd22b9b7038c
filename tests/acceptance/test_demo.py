"""``engram demo --json``: the whole story in one process, and the one JSON line that it ends with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.stack
@pytest.mark.timeout(400)
def test_the_demo_proves_what_it_says(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli", "demo", "--json"],
        cwd=ROOT,
        env=clean | {"ENGRAM_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["turns"] == 61
    assert told["vectors"] == told["nodes"] == told["memories"] + told["ended"]
    assert told["working_events"] == 61
    assert told["quarantined"] == 4
    assert told["pending"] >= 2
    assert told["edges"] > told["memories"]
    for store in ("milvus", "neo4j", "influx"):
        assert told["rebuild"][store]["equal"], told["rebuild"]
        assert told["rebuild"][store]["rows"] >= told["reconcile"][store]["checked"] > 0
        assert {told["reconcile"][store][kind] for kind in ("missing", "stale", "orphan")} == {0}
    assert [answer["question"] for answer in told["recall"] if not answer["as_expected"]] == []
    everything = json.dumps(told["recall"], ensure_ascii=False)
    for never in ("11010519491231002X", "pre-approved", "忽略之前"):
        assert never not in everything
