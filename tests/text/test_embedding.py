import math
import struct
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from pydantic import SecretStr

from infra.roles.milvus import first_generation
from infra.roles.remember import policy_here
from projectors.generations import Detail
from schemas.errors import Misconfigured
from schemas.settings import Settings
from streams.embedding import embedder_dimension, embedder_traits, load_embedder, unit_bytes


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
    with pytest.raises(Misconfigured, match="unknown embedder"):
        embedder_traits("word2vec")


def test_traits_are_those_of_the_loaded_embedder() -> None:
    embedder, traits = load_embedder("use"), embedder_traits("use")
    assert (embedder.revision, embedder.similar_threshold) == (traits.revision, traits.similar_threshold)
    assert embedder.dimension == traits.dimension == embedder_dimension("use")


class OtherModel:
    """Stands for a model of the optional extra: it has another dimension than the default."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_sentence_embedding_dimension(self) -> int:
        return 384


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    library = ModuleType("sentence_transformers")
    library.SentenceTransformer = OtherModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    load_embedder.cache_clear()
    yield Settings(embedder="sentence-transformers:Some/Model-v2", master_key=SecretStr("A" * 43 + "="))
    load_embedder.cache_clear()


def test_the_roles_take_revision_dimension_and_threshold_from_the_configured_embedder(other: Settings) -> None:
    embedder = load_embedder(other.embedder)
    assert first_generation(other) == Detail("st-model-v2", 384) == Detail(embedder.revision, embedder.dimension)
    policy = policy_here(other)
    assert policy.similarity_thresholds == {embedder.revision: embedder.similar_threshold}
    default = other.model_copy(update={"embedder": "use"})
    assert first_generation(default) == Detail("use-m3-1", 512)
    assert policy_here(default).similarity_thresholds == {"use-m3-1": 0.6}


def test_a_missing_extra_stops_the_role_that_needs_the_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    load_embedder.cache_clear()
    with pytest.raises(Misconfigured, match="optional extra"):
        first_generation(Settings(embedder="sentence-transformers:some/model"))


def test_rows_are_scaled_to_length_one() -> None:
    (row,) = unit_bytes([[3.0, 4.0]])
    assert struct.unpack("<2f", row) == pytest.approx((0.6, 0.8))
    assert unit_bytes([[0.0, 0.0]]) == [struct.pack("<2f", 0.0, 0.0)]
