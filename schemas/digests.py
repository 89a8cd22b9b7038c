"""Digests of what a store keeps beside version and hash: the values of a vector.

Called by whoever stores a vector (Postgres, Milvus) and by whoever compares them. Pure.
"""

import hashlib


def vector_digest(values: bytes) -> str:
    """Return 32 hex digits of the SHA-256 of a vector's little-endian float32 ``values``."""
    return hashlib.sha256(values).hexdigest()[:32]
