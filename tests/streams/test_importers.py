"""Importers: every format, ids that make a second import change nothing, and one sentence for every kind of broken file."""

import json

import pytest

from schemas.errors import Rejected
from schemas.ids import ID_PATTERN
from streams.importers import FORMATS, ImportedTurn, ImportOptions, paired, read_turns

CHINA = ImportOptions(timezone_offset="+08:00")


def read(content: object, file_format: str, options: ImportOptions = CHINA) -> list[ImportedTurn]:
    data = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
    return list(read_turns(data, file_format, options))


MEMORYBANK = {
    "张曼婷": {
        "name": "张曼婷",
        "history": {
            "2023-04-27": [
                {"query": "你好，我叫张曼婷", "response": "你好"},
                {"query": "我喜欢品茶", "response": "好的"},
            ],
            "2023-04-28": [{"query": "今天去爬山了", "response": "真好"}],
        },
    },
    "Emily": {"history": {"2023-04-27": [{"query": "I enjoy painting", "response": "Great"}]}},
}


def test_memorybank_keeps_people_days_and_order() -> None:
    turns = read(MEMORYBANK, "memorybank")
    assert [(t.user_name, t.session, t.index) for t in turns] == [
        ("张曼婷", "2023-04-27", 0),
        ("张曼婷", "2023-04-27", 1),
        ("张曼婷", "2023-04-28", 0),
        ("Emily", "2023-04-27", 0),
    ]
    # 2023-04-27 09:00 in China is 01:00 UTC.
    assert turns[0].at_ms == 1_682_557_200_000
    assert turns[1].at_ms == 1_682_557_260_000
    assert turns[3].user_id == "Emily"
    assert ID_PATTERN.match(turns[0].user_id)
    assert turns[0].user_id.startswith("u_")


def test_openai_lines_are_conversations_of_their_users() -> None:
    lines = [
        {"user": "ann", "id": "c 1", "messages": [
            {"role": "system", "content": "be nice"},
            {"role": "user", "content": "My name is Ann"},
            {"role": "assistant", "content": "Hi Ann"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}]},
        ]},
        {"user": "小明", "messages": [{"role": "user", "content": "你好"}, {"role": "assistant", "content": None}]},
    ]  # fmt: skip
    turns = read("\n".join(json.dumps(line) for line in lines).encode() + b"\n\n", "openai")
    assert [(t.user_name, t.user_message, t.assistant_message) for t in turns] == [
        ("ann", "My name is Ann", "Hi Ann"),
        ("ann", "look", None),
        ("小明", "你好", None),
    ]
    assert all(ID_PATTERN.match(turn.session) for turn in turns)


def test_openai_lines_may_be_single_messages_of_one_user() -> None:
    data = b'{"role": "user", "content": "hi"}\n{"role": "assistant", "content": "hello"}\n'
    (turn,) = read(data, "openai", ImportOptions("ann"))
    assert (turn.user_name, turn.user_message, turn.assistant_message) == ("ann", "hi", "hello")


@pytest.mark.parametrize("as_lines", [False, True])
def test_sharegpt_lists_and_lines(*, as_lines: bool) -> None:
    entries = [{"id": "x1", "conversations": [{"from": "human", "value": "喜欢茶"}, {"from": "gpt", "value": "好"}]}]
    data = "\n".join(json.dumps(e) for e in entries).encode() if as_lines else json.dumps(entries).encode()
    (turn,) = read(data, "sharegpt")
    assert (turn.user_name, turn.session, turn.user_message, turn.assistant_message) == ("x1", "x1", "喜欢茶", "好")


def test_crosswoz_dialogues_are_people_of_their_own() -> None:
    data = {"11290": {"messages": [{"role": "usr", "content": "找家餐馆"}, {"role": "sys", "content": "推荐明州菜馆"}]}}
    (turn,) = read(data, "crosswoz")
    assert (turn.user_name, turn.session, turn.assistant_message) == ("crosswoz-11290", "11290", "推荐明州菜馆")


def test_locomo_sessions_have_their_time() -> None:
    data = [{"sample_id": "conv-26", "conversation": {
        "speaker_a": "Caroline", "speaker_b": "Melanie", "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Melanie", "dia_id": "D1:1", "text": "Hey!"},
            {"speaker": "Caroline", "dia_id": "D1:2", "text": "I went to a group"},
            {"speaker": "Melanie", "dia_id": "D1:3", "text": "Nice"},
        ],
    }}]  # fmt: skip
    turns = read(data, "locomo", ImportOptions(timezone_offset="+00:00"))
    assert [(t.user_message, t.assistant_message) for t in turns] == [("", "Hey!"), ("I went to a group", "Nice")]
    assert turns[0].user_name == "conv-26-Caroline"
    assert turns[0].at_ms == 1_683_554_160_000


def test_pairing_joins_answers_in_a_row_and_keeps_lone_messages() -> None:
    messages = [("user", "a"), ("user", "b"), ("assistant", "1"), ("assistant", "2"), ("user", "c")]
    assert list(paired(messages)) == [("a", None), ("b", "1\n2"), ("c", None)]


def test_ids_follow_from_content_and_place_so_a_second_import_adds_nothing() -> None:
    first, again = read(MEMORYBANK, "memorybank"), read(MEMORYBANK, "memorybank")
    assert [t.event_id for t in first] == [t.event_id for t in again]
    assert len({t.event_id for t in first}) == len(first)


def test_a_file_that_grew_keeps_the_ids_of_what_it_had() -> None:
    grown = json.loads(json.dumps(MEMORYBANK))
    grown["张曼婷"]["history"]["2023-04-29"] = [{"query": "new", "response": "new"}]
    assert {t.event_id for t in read(MEMORYBANK, "memorybank")} < {t.event_id for t in read(grown, "memorybank")}


@pytest.mark.parametrize(
    ("content", "file_format", "sentence"),
    [
        (b'{"a": {"history": ', "memorybank", "line 1, column 19 is not JSON"),
        (b'{\n"a": \xff}', "memorybank", "line 2 is not UTF-8"),
        ([1], "memorybank", "the file must be a JSON object"),
        ({"ann": {}}, "memorybank", "ann has no history"),
        (
            {"ann": {"history": {"2023-04-27": [{"query": "x"}]}}},
            "memorybank",
            "ann, 2023-04-27, turn 1 has no response",
        ),
        ({"ann": {"history": {"yesterday": []}}}, "memorybank", "'yesterday' is not a date"),
        ({"ann": {"history": {"2023-04-27": [{"query": 5, "response": ""}]}}}, "memorybank", "query must be a text"),
        (b'{"user": "a", "messages": []}\n{oops\n', "openai", "line 2, column 2 is not JSON"),
        (b'{"messages": [{"role": "user", "content": "x"}]}', "openai", "line 1 names no user"),
        (
            b'{"user": "a", "messages": [{"role": "king", "content": "x"}]}',
            "openai",
            "line 1, message 1: the role 'king'",
        ),
        (b'{"user": "a", "messages": [{"content": "x"}]}', "openai", "line 1, message 1 has no role"),
        ([{"id": "x"}], "sharegpt", "conversation 1 has no conversations"),
        ({"1": {"messages": "x"}}, "crosswoz", "dialogue 1 must be a JSON list"),
        ([{"conversation": {}}], "locomo", "sample 1 has no speaker_a"),
        ({}, "diary", "there is no format diary: use one of memorybank"),
    ],
)
def test_a_broken_file_is_refused_with_the_place(content: object, file_format: str, sentence: str) -> None:
    with pytest.raises(Rejected) as refused:
        read(content, file_format)
    assert sentence in refused.value.reason
    assert refused.value.code == "bad_file"


def test_every_format_is_covered_here() -> None:
    assert set(FORMATS) == {"memorybank", "openai", "sharegpt", "crosswoz", "locomo"}
