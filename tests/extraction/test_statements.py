import datetime as dt

import pytest

from schemas.candidates import Candidate
from streams.extraction.inputs import TurnInput
from streams.extraction.rules import extract_turn

AT = int(dt.datetime(2025, 3, 5, 2, 0, tzinfo=dt.UTC).timestamp() * 1000)


def _candidates(message: str, answer: str | None = None, previous: str | None = None) -> tuple[Candidate, ...]:
    turn = TurnInput(
        event_id="event",
        user_message=message,
        assistant_message=answer,
        previous_user_message=previous,
        stated_at_ms=AT,
        timezone_offset="+08:00",
    )
    return extract_turn(turn).candidates


def _facts(message: str, answer: str | None = None, previous: str | None = None) -> set[tuple[str, str, str]]:
    found = _candidates(message, answer, previous)
    return {(c.subject, c.attribute, c.value.strip('"')) for c in found if not c.negated}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("我叫小明，在深圳做后端", {("user", "name", "小明"), ("user", "city", "深圳"), ("user", "job", "后端")}),
        ("My name is Alice and I live in London", {("user", "name", "Alice"), ("user", "city", "London")}),
        (
            "Hi, 我是陈伟, I work as a nurse at Nebula",
            {("user", "name", "陈伟"), ("user", "job", "nurse"), ("user", "employer", "Nebula")},
        ),
        (
            "I'm Anna, a backend developer in Berlin",
            {("user", "name", "Anna"), ("user", "job", "backend developer"), ("user", "city", "Berlin")},
        ),
        ("叫我老张就行", {("user", "nickname", "老张")}),
        ("Call me Al", {("user", "nickname", "Al")}),
        ("我今年34岁，是四川人", {("user", "age", "34"), ("user", "hometown", "四川")}),
        ("I'm 34 years old and I'm originally from Spain", {("user", "age", "34"), ("user", "hometown", "Spain")}),
        ("我的生日是1995年3月8日", {("user", "birthday", "1995年3月8日")}),
        ("I was born on 4 May 1988", {("user", "birthday", "4 May 1988")}),
        ("我喜欢徒步、长跑和攀岩", {("user", "likes", "徒步"), ("user", "likes", "长跑"), ("user", "likes", "攀岩")}),
        (
            "I like hiking, running, and rock climbing",
            {("user", "likes", "hiking"), ("user", "likes", "running"), ("user", "likes", "rock climbing")},
        ),
        ("我喜欢火锅，讨厌香菜", {("user", "likes", "火锅"), ("user", "dislikes", "香菜")}),
        ("I like jazz but I hate karaoke", {("user", "likes", "jazz"), ("user", "dislikes", "karaoke")}),
        ("我不喜欢打电话", {("user", "dislikes", "打电话")}),
        ("I don't like phone calls", {("user", "dislikes", "phone calls")}),
        ("我不吃香菜", {("user", "avoids", "香菜")}),
        ("I don't eat coriander", {("user", "avoids", "coriander")}),
        ("我对花生和海鲜都过敏", {("user", "allergic_to", "花生"), ("user", "allergic_to", "海鲜")}),
        (
            "I'm allergic to peanuts and shellfish",
            {("user", "allergic_to", "peanuts"), ("user", "allergic_to", "shellfish")},
        ),
        (
            "我妈妈对青霉素过敏，她住在成都",
            {("person:mother", "allergic_to", "青霉素"), ("person:mother", "city", "成都")},
        ),
        (
            "My mother is allergic to penicillin and she lives in Rome",
            {("person:mother", "allergic_to", "penicillin"), ("person:mother", "city", "Rome")},
        ),
        ("我朋友小王喜欢钓鱼", {("person:小王", "likes", "钓鱼")}),
        ("My friend Tom likes fishing", {("person:Tom", "likes", "fishing")}),
        ("我女朋友叫小红", {("person:girlfriend", "name", "小红")}),
        ("My wife is called Carol", {("person:wife", "name", "Carol")}),
        ("我有一个女儿，今年6岁", {("user", "family_member", "一个女儿"), ("person:daughter", "age", "6")}),
        (
            "I have two kids and a dog named Rex",
            {("user", "family_member", "two kids"), ("user", "pet", "dog named Rex")},
        ),
        ("我的手机号是13812345678", {("user", "phone", "13812345678")}),
        ("My email is bob@example.com", {("user", "email", "bob@example.com")}),
        ("别写太啰嗦啊", {("user", "answer_style", "别写太啰嗦")}),
        ("Please keep your answers short", {("user", "answer_style", "keep your answers short")}),
        ("以后请用中文回答我", {("user", "answer_language", "中文")}),
        ("Please always answer in English", {("user", "answer_language", "English")}),
        ("你能用中文回答吗？", {("user", "answer_language", "中文")}),
        ("Could you always answer in bullet points?", {("user", "answer_style", "answer in bullet points")}),
        (
            "我在Google做SRE，base在上海",
            {("user", "employer", "Google"), ("user", "job", "SRE"), ("user", "city", "上海")},
        ),
        ("I live in 上海 and my name is 李雷", {("user", "city", "上海"), ("user", "name", "李雷")}),
        ("我 love 火锅，但是 hate 香菜", {("user", "likes", "火锅"), ("user", "dislikes", "香菜")}),
        ("我對花生過敏，我住在臺北", {("user", "allergic_to", "花生"), ("user", "city", "台北")}),
        (
            "我奶奶今年80岁了，有高血压",
            {("person:grandmother", "age", "80"), ("person:grandmother", "health_condition", "高血压")},
        ),
        (
            "My grandmother is 80 and has diabetes",
            {("person:grandmother", "age", "80"), ("person:grandmother", "health_condition", "diabetes")},
        ),
        ("我的邮箱是a.b@c.com", {("user", "email", "a.b@c.com")}),
        ("以后别给我打电话", {("user", "contact_preference", "别给我打电话")}),
        ("Please don't call me", {("user", "contact_preference", "do not call me")}),
        ("我以前住在北京", {("user", "city_before", "北京")}),
        ("I used to live in Paris", {("user", "city_before", "Paris")}),
        ("我上周搬到广州了", {("user", "city", "广州")}),
        ("Actually, I moved to Manchester last week", {("user", "city", "Manchester")}),
    ],
)
def test_a_statement_gives_exactly_these_facts(message: str, expected: set[tuple[str, str, str]]) -> None:
    assert _facts(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "我喜欢什么？",
        "Do I like tea?",
        "你喜欢喝茶吗？",
        "Do you like hiking?",
        "如果我住在北京，房租要多少？",
        "If I lived in Paris, what would rent be?",
        "他说：“我喜欢吃辣的东西”",
        'She said "I love my new job in Berlin"',
        "帮我翻译：我喜欢猫",
        "Translate this: I love cats",
        "我喜欢这个",
        "I like it",
        "我叫了外卖",
        "I'm fine",
        "I'd like to know more",
        "我在图书馆看书",
        "小王说我喜欢吃辣",
        "今天学了一道菜，叫做清蒸鲈鱼",
        "帮我写一段简短的自我介绍",
        "Write a short introduction",
        "深圳明天天气怎么样？",
        "What's the weather in Berlin tomorrow?",
    ],
)
def test_what_states_nothing_about_anybody(message: str) -> None:
    profile = {fact for fact in _facts(message) if fact[1] not in {"event", "plan"}}
    assert profile == set()


@pytest.mark.parametrize(
    "message", ["好像我对芒果有点过敏", "Maybe I'm allergic to mango", "我可能喜欢蓝色", "I think I like blue"]
)
def test_a_guess_has_half_confidence(message: str) -> None:
    (candidate,) = _candidates(message)
    assert candidate.confidence == 0.5


@pytest.mark.parametrize(
    ("previous", "message", "ended", "stated"),
    [
        ("我对花生过敏", "不对，是我老婆对花生过敏", ("user", "花生"), ("person:wife", "花生")),
        (
            "I'm allergic to peanuts",
            "No, it was my wife who is allergic to peanuts",
            ("user", "peanuts"),
            ("person:wife", "peanuts"),
        ),
        ("我对花生过敏", "不对，是腰果，不是花生", ("user", "花生"), ("user", "腰果")),
        ("I'm allergic to peanuts", "No, it's cashews, not peanuts", ("user", "peanuts"), ("user", "cashews")),
    ],
)
def test_a_correction_ends_the_old_and_states_the_new(
    previous: str, message: str, ended: tuple[str, str], stated: tuple[str, str]
) -> None:
    found = _candidates(message, previous=previous)
    old = {(c.subject, c.value.strip('"')) for c in found if c.negated and c.attribute == "allergic_to"}
    new = {(c.subject, c.value.strip('"')) for c in found if not c.negated and c.attribute == "allergic_to"}
    assert old == {ended}
    assert new == {stated}
    assert all(c.intent == "correct" for c in found)


@pytest.mark.parametrize(
    ("message", "attribute"),
    [
        ("我对花生不过敏", "allergic_to"),
        ("I'm not allergic to peanuts", "allergic_to"),
        ("我不再住在北京了", "city"),
        ("I no longer work at Google", "employer"),
    ],
)
def test_a_negation_ends_a_value_and_makes_none(message: str, attribute: str) -> None:
    (candidate,) = _candidates(message)
    assert candidate.negated
    assert candidate.attribute == attribute
    assert candidate.relations == ()


def test_a_dislike_also_ends_an_earlier_like_of_the_same() -> None:
    for message in ("我不喜欢打电话", "I hate karaoke"):
        dislike, ended = _candidates(message)
        assert (dislike.attribute, dislike.negated) == ("dislikes", False)
        assert (ended.attribute, ended.negated, ended.value) == ("likes", True, dislike.value)


def test_relation_and_sentence_speak_of_the_right_person() -> None:
    (chinese,) = _candidates("我妈妈对青霉素过敏")
    (english,) = _candidates("My mother is allergic to penicillin")
    assert chinese.content == "用户的母亲对青霉素过敏"
    assert english.content == "The user's mother is allergic to penicillin"
    for candidate in (chinese, english):
        (relation,) = candidate.relations
        assert (relation.subject_type, relation.subject_id, relation.predicate) == ("person", "mother", "allergic_to")
        assert (candidate.entity_type, candidate.entity_id) == ("person", "mother")
        assert candidate.confidence == 0.95
