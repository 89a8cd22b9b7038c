"""The turns that are sent: MemoryBank's conversations where the files are given, else the shipped sample, varied.

Called by the groups of the write path. Pure but for reading the files it is given.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice, zip_longest
from pathlib import Path

from infra.demo.conversation import load
from schemas.ids import user_id_of_name
from schemas.inputs import TurnRecorded
from streams.importers import ImportOptions, read_turns

MEMORYBANK = ("memorybank_cn.json", "memorybank_en.json")
TENANT = "bench"
# Values that take turns, so that no round says what another one said.
VARIED: tuple[tuple[str, ...], ...] = (
    ("peanuts", "shrimp", "soy", "walnuts", "sesame", "kiwis", "celery"),
    ("London", "Leeds", "Bristol", "York", "Oxford", "Cardiff", "Glasgow"),
    ("hiking", "chess", "sailing", "pottery", "tennis", "painting", "cycling"),
    ("花生", "虾", "牛奶", "芒果", "核桃", "芝麻", "海鲜"),
    ("深圳", "杭州", "成都", "南京", "武汉", "西安", "厦门"),
    ("爬山", "下棋", "游泳", "摄影", "书法", "羽毛球", "跑步"),
)


@dataclass(frozen=True, slots=True)
class BenchTurn:
    """A turn to send; users take turns, so that partitions fill evenly."""

    user: str
    session: str
    user_message: str
    assistant_message: str


def turns(wanted: int, data: Path | None, now_ms: int) -> tuple[BenchTurn, ...]:
    """Return ``wanted`` turns; each round through the texts has users of its own. Raises ``OSError`` for missing files."""
    first = _sample(now_ms) if data is None else _memorybank(data)
    rounds = chain.from_iterable(_round(first, number, varied=data is None) for number in count())
    return tuple(islice(rounds, wanted))


def _round(first: Sequence[BenchTurn], number: int, *, varied: bool) -> Iterator[BenchTurn]:
    for turn in first:
        message = _varied(turn.user_message, number) if varied else turn.user_message
        yield replace(turn, user=f"{turn.user}-{number}", user_message=message)


def _varied(text: str, number: int) -> str:
    for values in VARIED:
        text = text.replace(values[0], values[number % len(values)])
    return text


def _sample(now_ms: int) -> tuple[BenchTurn, ...]:
    users: dict[str, list[BenchTurn]] = {}
    for line in load(now_ms):
        if isinstance(line.body, TurnRecorded):
            turn = BenchTurn(line.user, line.session, line.body.user_message, line.body.assistant_message or "")
            users.setdefault(line.user, []).append(turn)
    return _in_turn(users)


def _memorybank(data: Path) -> tuple[BenchTurn, ...]:
    users: dict[str, list[BenchTurn]] = {}
    for name in MEMORYBANK:
        for turn in read_turns((data / name).read_bytes(), "memorybank", ImportOptions()):
            user = user_id_of_name(turn.user_name)
            made = BenchTurn(user, turn.session, turn.user_message, turn.assistant_message or "")
            users.setdefault(f"{name}/{user}", []).append(made)
    return _in_turn(users)


def _in_turn(users: dict[str, list[BenchTurn]]) -> tuple[BenchTurn, ...]:
    """One turn of each user after the other, as they would arrive."""
    return tuple(turn for row in zip_longest(*users.values()) for turn in row if turn is not None)
