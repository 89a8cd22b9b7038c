import datetime as dt

import pytest

from streams.text.times import local_time, resolve_times, zone_of

ZONE = "+08:00"
REFERENCE = int(dt.datetime(2025, 3, 5, 10, 0, tzinfo=zone_of(ZONE)).timestamp() * 1000)  # a Wednesday


def _stamps(text: str, language: str) -> list[str]:
    spans = resolve_times(text, language, REFERENCE, ZONE)
    return [local_time(span.from_ms, ZONE).strftime("%Y-%m-%d %H:%M") for span in spans]


@pytest.mark.parametrize(
    ("chinese", "english", "expected"),
    [
        ("明天下午三点开会", "meeting tomorrow at 3pm", "2025-03-06 15:00"),
        ("下周二下午三点约了牙医", "dentist next Tuesday at 3pm", "2025-03-11 15:00"),
        ("周五见", "see you on Friday", "2025-03-07 00:00"),
        ("昨天到的", "it came yesterday", "2025-03-04 00:00"),
        ("三天前买的", "bought it 3 days ago", "2025-03-02 00:00"),
        ("两周后出发", "leaving in two weeks", "2025-03-19 00:00"),
        ("半小时后开始", "starts half an hour from now", "2025-03-05 10:30"),
        ("上个月搬的家", "moved last month", "2025-02-01 00:00"),
        ("这周末去爬山", "hiking this weekend", "2025-03-08 00:00"),
        ("1990年5月3日出生", "born on May 3, 1990", "1990-05-03 00:00"),
        ("后天上午10点半", "the day after tomorrow at 10:30 am", "2025-03-07 10:30"),
        ("明年", "next year", "2026-01-01 00:00"),
        ("周二下午", "Tuesday afternoon", "2025-03-11 12:00"),
    ],
)
def test_both_languages_mean_the_same_time(chinese: str, english: str, expected: str) -> None:
    assert _stamps(chinese, "zh") == [expected]
    assert _stamps(english, "en") == [expected]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我有两天没睡", "zh"),
        ("今后再说", "zh"),
        ("我喜欢喝茶", "zh"),
        ("I may go and march on", "en"),
        ("give me a second", "en"),
        ("I like tea", "en"),
    ],
)
def test_no_time_is_invented(text: str, language: str) -> None:
    assert resolve_times(text, language, REFERENCE, ZONE) == ()


def test_the_zone_decides_what_tomorrow_is() -> None:
    late = int(dt.datetime(2025, 3, 5, 20, 0, tzinfo=dt.UTC).timestamp() * 1000)
    (at_home,) = resolve_times("明天", "zh", late, "+08:00")
    (at_utc,) = resolve_times("tomorrow", "en", late, None)
    assert local_time(at_home.from_ms, "+08:00").date() == dt.date(2025, 3, 7)
    assert local_time(at_utc.from_ms, None).date() == dt.date(2025, 3, 6)
