from itertools import pairwise

import pytest

from streams.text.masking import find_identifiers, mask

RESIDENT_ID = "11010519491231002X"  # the example number of GB 11643


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("我的电话是13812345678哦", "phone", "13812345678"),
        ("call me at (415) 555-2671", "phone", "(415) 555-2671"),
        ("打010-62345678找我", "phone", "010-62345678"),
        ("发到我邮箱joe@example.com就行", "email", "joe@example.com"),
        ("my email is joe@example.com", "email", "joe@example.com"),
        (f"身份证{RESIDENT_ID}请登记", "resident_id", RESIDENT_ID),
        ("my SSN is 078-05-1120", "ssn", "078-05-1120"),
        ("卡号6222021234567890128转账", "bank_card", "6222021234567890128"),
        ("pay with 4111 1111 1111 1111 please", "bank_card", "4111 1111 1111 1111"),
        ("护照号E12345678", "passport", "E12345678"),
        ("my passport number is AB1234567", "passport", "AB1234567"),
        ("我的车牌是京A12345", "plate", "京A12345"),
        ("订单A10023还没到", "reference", "A10023"),
        ("订单20250712没有发货", "reference", "20250712"),
        ("order #84213 is late", "reference", "84213"),
        ("我的密码是abc123!", "secret", "abc123"),
        ("my password is sunshine1", "secret", "sunshine1"),
        ("token=ghp_" + "a1B2" * 9, "secret", "ghp_" + "a1B2" * 9),
        ("密钥LTAI5tAbCdEfGhIjKlMn在这里", "secret", "LTAI5tAbCdEfGhIjKlMn"),
    ],
)
def test_an_identifier_is_found_and_masked(text: str, kind: str, value: str) -> None:
    found = [(span.kind, span.value) for span in find_identifiers(text)]
    assert (kind, value) in found
    assert value not in mask(text)
    assert "_MASKED]" in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "密码是什么",
        "my password is not working",
        "my password is wrong",
        "2025年3月4日下午3点见",
        "meeting on 2025-03-04 at 15:00",
        "身份证110105194912310021是错的校验位",
        "版本号1.2.3，一共12345件",
        "I ran 10000 steps and paid 123.45",
        "他们有2500000名用户",
        "住在深圳",
    ],
)
def test_what_is_no_identifier_stays(text: str) -> None:
    masked = mask(text)
    assert "PHONE" not in masked
    assert "CARD" not in masked
    assert "SECRET" not in masked
    assert "[ID" not in masked


def test_spans_are_in_order_and_apart() -> None:
    spans = find_identifiers("电话13812345678或13912345678，邮箱a@b.cn")
    assert [span.kind for span in spans] == ["phone", "phone", "email"]
    assert all(before.end <= after.start for before, after in pairwise(spans))
