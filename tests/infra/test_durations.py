"""Lengths of time as people type them."""

import pytest

from infra.durations import seconds_of
from schemas.errors import Misconfigured


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7_200), ("7d", 604_800), (" 0.5h ", 1_800)]
)
def test_a_length_of_time_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "-1h", "1", "h", "1w", "1h30m", "١h", "1e9s", "two hours", "一小时"])
def test_anything_else_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(Misconfigured, match="is no length of time: say 90s"):
        seconds_of(text)
