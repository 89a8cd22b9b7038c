"""The turns that are sent."""

import json
from pathlib import Path

import pytest

from bench.texts import MEMORYBANK, VARIED, turns

NOW_MS = 1_790_000_000_000


def test_each_round_has_users_and_values_of_its_own() -> None:
    found = turns(400, None, NOW_MS)
    rounds = {turn.user.rsplit("-", 1)[1] for turn in found}
    assert len(found) == 400
    assert len(rounds) > 2
    said = {number: {turn.user_message for turn in found if turn.user.endswith(f"-{number}")} for number in ("0", "1")}
    varied = {text for text in said["0"] if any(values[0] in text for values in VARIED)}
    assert len(varied) > 3
    assert not varied & said["1"]
    assert len(said["0"]) == len(said["1"])


def test_both_languages_are_there() -> None:
    texts = [turn.user_message for turn in turns(100, None, NOW_MS)]
    chinese = sum(any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in texts)
    assert 20 < chinese < 80


def test_memorybank_is_read_and_users_take_turns(tmp_path: Path) -> None:
    for name, person in zip(MEMORYBANK, ("小明", "Ann"), strict=True):
        talks = [{"query": f"{person} {number}", "response": "ok"} for number in range(3)]
        (tmp_path / name).write_text(json.dumps({person: {"history": {"2023-05-01": talks}}}), "utf-8")
    found = turns(8, tmp_path, NOW_MS)
    assert [turn.user_message for turn in found[:4]] == ["小明 0", "Ann 0", "小明 1", "Ann 1"]
    assert found[0].user != found[6].user
    assert found[6].user_message == "小明 0"


def test_missing_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        turns(1, tmp_path, NOW_MS)
