import math
import struct

import pytest

from schemas.errors import Misconfigured
from streams.embedding import load_embedder, unit_bytes


def _cosine(left: bytes, right: bytes) -> float:
    pairs = zip(struct.iter_unpack("<f", left), struct.iter_unpack("<f", right), strict=True)
    return math.fsum(float(a[0]) * float(b[0]) for a, b in pairs)


def test_vectors_are_unit_float32_and_stable() -> None:
    embedder = load_embedder("use")
    texts = ["用户喜欢爬山", "The user likes hiking", "订单还没有发货", ""]
    vectors = embedder.embed(texts)
    assert [len(vector) for vector in vectors] == [embedder.dimension * 4] * 4
    assert all(abs(_cosine(vector, vector) - 1.0) < 1e-5 for vector in vectors)
    assert embedder.embed([]) == []


def test_the_same_sentence_in_two_languages_is_nearer_than_another_one() -> None:
    embedder = load_embedder("use")
    chinese, english, other = embedder.embed(["用户喜欢爬山", "The user likes hiking", "订单还没有发货"])
    assert _cosine(chinese, english) > embedder.similar_threshold > _cosine(chinese, other)


def test_an_unknown_name_and_a_missing_extra_say_what_to_do() -> None:
    with pytest.raises(Misconfigured, match="unknown embedder"):
        load_embedder("word2vec")


def test_rows_are_scaled_to_length_one() -> None:
    (row,) = unit_bytes([[3.0, 4.0]])
    assert struct.unpack("<2f", row) == pytest.approx((0.6, 0.8))
    assert unit_bytes([[0.0, 0.0]]) == [struct.pack("<2f", 0.0, 0.0)]
