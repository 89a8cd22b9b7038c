"""What a report says: ratios, goals, percentiles, JSON."""

import msgspec
import pytest

from bench.figures import Figure, Goal, Group, Report, percentile, share_rows
from bench.show import cells


def test_a_rate_is_a_share_of_the_raw_rate() -> None:
    figure = Figure(name="x", value=60.0, unit="rows/s", raw=100.0, goal=Goal("ratio", 0.6))
    assert figure.ratio == pytest.approx(0.6)
    assert figure.met is True
    assert msgspec.structs.replace(figure, value=59.0).met is False


def test_a_cost_is_compared_the_other_way_round() -> None:
    assert Figure(name="x", value=2.0, unit="s", raw=1.0).ratio == pytest.approx(0.5)


def test_a_goal_without_a_raw_rate_is_missed_and_no_goal_is_neither() -> None:
    assert Figure(name="x", value=1.0, unit="rows/s", goal=Goal("ratio", 0.1)).met is False
    assert Figure(name="x", value=1.0, unit="rows/s").met is None


@pytest.mark.parametrize(
    ("kind", "value", "met"), [("at_least", 5.0, True), ("at_least", 4.9, False), ("at_most", 5.1, False)]
)
def test_limits_are_inclusive(kind: str, value: float, met: bool) -> None:
    assert Figure(name="x", value=value, unit="s", goal=Goal(kind, 5.0)).met is met


def test_a_missed_goal_is_said_in_the_table() -> None:
    assert cells(Figure(name="x", value=1.0, unit="s", goal=Goal("at_most", 0.5)))[-1] == "MISSED"


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_are_values_that_were_measured(share: float, expected: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], share) == expected


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        percentile([], 0.5)


def test_shares_add_up_and_are_sorted() -> None:
    assert share_rows({"a": 1.0, "b": 2.0}, 4.0) == (
        ("b", "2.00", "50%"),
        ("a", "1.00", "25%"),
        ("everything else", "1.00", "25%"),
    )


def test_the_json_holds_ratios_and_verdicts() -> None:
    figure = Figure(name="x", value=80.0, unit="rows/s", raw=100.0, goal=Goal("ratio", 0.7))
    group = Group(name="relay", load_average=0.5, figures=(figure,))
    report = Report(command="c", started_at="t", cpus=2, python="3.11", rows=1, turns=1, groups=(group,))
    found = msgspec.json.decode(report.as_json())["groups"][0]["figures"][0]
    assert (found["ratio"], found["met"], found["raw"]) == (0.8, True, 100.0)
