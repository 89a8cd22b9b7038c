"""Vectors between their two byte forms: little-endian float32 (records, topics) and Postgres' binary ``vector``.

Called by the readers and writers of Postgres. Pure; both ways keep every bit.
"""

import struct

import numpy as np

_HEADER = struct.Struct(">HH")


def postgres_vector(values: bytes) -> bytes:
    """Return the binary ``vector`` of little-endian float32 ``values``."""
    return _HEADER.pack(len(values) // 4, 0) + np.frombuffer(values, "<f4").byteswap().tobytes()


def values_of(vector: bytes) -> bytes:
    """Return the little-endian float32 values of a binary ``vector``."""
    return np.frombuffer(vector, ">f4", offset=_HEADER.size).byteswap().tobytes()


def values_in(vectors: bytes) -> list[bytes]:
    """Return the little-endian float32 values of each of the binary ``vectors``, which stand one after the other."""
    found: list[bytes] = []
    place = 0
    while place < len(vectors):
        dimension = _HEADER.unpack_from(vectors, place)[0]
        start = place + _HEADER.size
        place = start + 4 * dimension
        found.append(np.frombuffer(vectors, ">f4", dimension, start).byteswap().tobytes())
    return found
