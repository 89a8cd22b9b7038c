import pytest

from streams.vocabulary import attributes, cardinality, is_sensitive, normalised_value, opposite_of


@pytest.mark.parametrize(
    ("attribute", "left", "right"),
    [
        ("likes", '"咖啡"', '"Coffee"'),
        ("likes", '"hiking"', '" Hiking "'),
        ("allergic_to", '"青霉素"', '"penicillin"'),
        ("allergic_to", '"peanut"', '"花生"'),
        ("city", '"北京市"', '"Beijing"'),
        ("city", '"臺北"', '"台北"'),
        ("phone", '"138 1234 5678"', '"+86 13812345678"'),
        ("birthday", '"1990年5月3日"', '"May 3rd, 1990"'),
        ("birthday", '"1990-05-03"', '"3 May 1990"'),
        ("birthday", '"5月3日"', '"May 3rd"'),
        ("order_status", '"shipped"', '"已发货"'),
    ],
)
def test_two_ways_to_say_the_same_have_one_form(attribute: str, left: str, right: str) -> None:
    assert normalised_value(attribute, left) == normalised_value(attribute, right)


@pytest.mark.parametrize(
    ("attribute", "left", "right"),
    [("likes", '"茶"', '"咖啡"'), ("city", '"北京"', '"南京"'), ("likes", '"杭州"', '"hangzhou"')],
)
def test_different_values_stay_different(attribute: str, left: str, right: str) -> None:
    assert normalised_value(attribute, left) != normalised_value(attribute, right)


def test_cardinality_and_its_default() -> None:
    assert (cardinality("name"), cardinality("city"), cardinality("birthday")) == ("one", "one", "one")
    assert (cardinality("likes"), cardinality("allergic_to"), cardinality("never heard of")) == ("many", "many", "many")


def test_opposites_and_sensitive_attributes() -> None:
    assert (opposite_of("likes"), opposite_of("dislikes"), opposite_of("name")) == ("dislikes", "likes", "")
    assert is_sensitive("birthday")
    assert not is_sensitive("likes")


def test_every_attribute_has_a_sentence_in_both_languages() -> None:
    assert len(attributes()) > 40
    for entry in attributes().values():
        assert "{v}" in entry.chinese
        assert "{v}" in entry.english
        assert entry.cardinality in {"one", "many"}
        assert entry.category in {"identity", "preference", "policy", "episodic", "fact", "tool_failure"}
