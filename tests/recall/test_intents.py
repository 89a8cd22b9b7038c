"""The intent table in both languages, and identifiers in questions."""

import pytest

from recall.intents import identifiers_of, intents_of


@pytest.mark.parametrize(
    ("question", "name", "who"),
    [
        ("我叫什么名字？", "name", "user"),
        ("你还记得我叫什么吗", "name", "user"),
        ("What is my name?", "name", "user"),
        ("what's my name", "name", "user"),
        ("Who am I", "name", "user"),
        ("我住在哪里？", "city", "user"),
        ("Where do I live?", "city", "user"),
        ("我是做什么的", "job", "user"),
        ("What do I do for a living?", "job", "user"),
        ("我喜欢什么？", "likes", "user"),
        ("What do I like to eat?", "likes", "user"),
        ("what is my favourite colour", "likes", "user"),
        ("What music do I like?", "likes", "user"),
        ("我喜欢什么音乐", "likes", "user"),
        ("Which foods do I avoid?", "dislikes", "user"),
        ("我不喜欢什么", "dislikes", "user"),
        ("What do I hate?", "dislikes", "user"),
        ("张三喜欢什么？", "likes_of", "张三"),
        ("请问张三最喜欢吃什么", "likes_of", "张三"),
        ("What does Alice like?", "likes_of", "Alice"),
        ("what does my mother like", "likes_of", "mother"),
        ("我妈妈喜欢什么", "likes_of", "妈妈"),
        ("Alice's favorite food?", "likes_of", "Alice"),
        ("What doesn't Bob like?", "dislikes_of", "Bob"),
        ("我对什么过敏", "allergy", "user"),
        ("What am I allergic to?", "allergy", "user"),
        ("what is Bob allergic to", "allergy_of", "Bob"),
        ("Do I have an appointment?", "schedule", "user"),
        ("我这周有什么安排", "schedule", "user"),
        ("李四住在哪里", "home_of", "李四"),
        ("Where does Bob Smith live?", "home_of", "Bob Smith"),
    ],
)
def test_question_gives_intent(question: str, name: str, who: str) -> None:
    assert (name, who) in [(intent.name, intent.who) for intent in intents_of(question)]


@pytest.mark.parametrize(
    "question", ["今天天气怎么样", "How do I reset the router?", "", "他喜欢什么", "what does he like"]
)
def test_open_question_gives_no_intent(question: str) -> None:
    assert intents_of(question) == ()


def test_own_question_is_not_about_a_person() -> None:
    assert {intent.who for intent in intents_of("我喜欢什么")} == {"user"}
    assert {intent.who for intent in intents_of("我不喜欢什么")} == {"user"}
    assert {intent.who for intent in intents_of("what do I like")} == {"user"}


def test_identifiers() -> None:
    assert identifiers_of("订单20250712到哪了，电话 138-0013-8000？") == ("20250712", "138-0013-8000")
    assert identifiers_of("Where is order A-7788-XZ? mail bob@example.com") == ("A-7788-XZ", "bob@example.com")
    assert identifiers_of("我叫什么名字") == ()


def test_long_question_is_cut_not_slow() -> None:
    assert intents_of("what does " + "a" * 1_000_000) == ()
