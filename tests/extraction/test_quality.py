"""The figures of the shipped labelled sets must not fall: each floor stands beside the reason for its height."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.commands.bench import bench
from infra.quality.figures import Figure, Quality
from infra.quality.labelled import texts_of, turns_of
from infra.quality.measure import EXTRACTION_SET, POISON_SET, measure, own_set

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report() -> Quality:
    return measure(None, None, None, speed=False)


def _figure(report: Quality, measure_: str, group: str) -> Figure:
    (found,) = [one for one in report.figures if (one.measure, one.group) == (measure_, group)]
    return found


# A wrong memory stays wrong, so precision has the highest floor; the others stand a little below what was measured.
AT_LEAST = [
    ("extraction precision", 0.85),
    ("extraction recall", 0.50),
    ("category agreement", 0.95),
    ("noise accuracy", 0.85),
    ("poison refused", 0.3),
]


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize(("name", "floor"), AT_LEAST)
def test_a_figure_does_not_fall(report: Quality, name: str, floor: float, language: str) -> None:
    found = _figure(report, name, language)
    assert found.share is not None
    assert found.share >= floor, f"{found.right} of {found.count}"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_benign_texts_are_left_alone(report: Quality, language: str) -> None:
    # A false alarm loses what a person said; two of a hundred texts full of trigger words is what the floor allows.
    found = _figure(report, "benign false alarms", language)
    assert found.count >= 100
    assert found.right <= 2, [one for one in report.mistakes if one.measure == "poison"]


def test_the_sets_are_equal_in_both_languages() -> None:
    turns, texts = turns_of(own_set(EXTRACTION_SET)), texts_of(own_set(POISON_SET))
    for languages in (Counter(turn.lang for turn in turns), Counter(text.lang for text in texts)):
        assert min(languages.values()) / max(languages.values()) > 0.9
    assert len(turns) >= 300
    assert min(Counter(text.lang for text in texts).values()) >= 200
    assert len({turn.id for turn in turns}) == len(turns)
    assert {turn.phenomenon for turn in turns if turn.lang == "zh"} >= {
        "negation", "correction", "subject", "hedge", "question", "quoted", "pasted", "several_facts", "mixed", "time",
        "agent_commitment", "query_answer", "noise",
    }  # fmt: skip


def test_the_command_prints_figures_with_counts_and_what_is_missing(tmp_path: Path) -> None:
    done = CliRunner().invoke(bench, ["quality", "--data", str(tmp_path), "--json", "--no-speed"])
    assert done.exit_code == 0
    told = json.loads(done.output)
    assert "crosswoz_val.json.gz" in told["missing"]
    assert all(0 <= one["right"] <= one["count"] for one in told["figures"])


def test_the_command_reads_other_sets(tmp_path: Path) -> None:
    line = {
        "id": "1", "lang": "en", "user_message": "My name is Bob", "assistant_message": None, "timezone": "+00:00",
        "device_time": "2026-03-11T10:00:00", "phenomenon": "identity",
        "expect": [{"about": "user", "values": ["Alice"], "category": "identity", "source": "user_statement"}],
        "pending": [], "forbid": [],
    }  # fmt: skip
    turns = tmp_path / "turns.jsonl"
    turns.write_text(json.dumps(line) + "\n", encoding="utf-8")
    done = CliRunner().invoke(bench, ["quality", "--extraction", str(turns), "--json", "--no-speed", "--mistakes"])
    told = json.loads(done.output)
    shares = {(one["measure"], one["group"]): one["share"] for one in told["figures"]}
    assert shares["extraction precision", "en"] == 0
    assert shares["extraction recall", "en"] == 0
    assert [one["id"] for one in told["mistakes"] if one["measure"] in {"precision", "recall"}] == ["1", "1"]


def test_engram_knows_the_command_and_refuses_what_is_no_set(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli", "bench", "quality", "--poison", str(broken), "--no-speed"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "not a labelled set" in done.stderr
