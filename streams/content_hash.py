"""The content hash: what a memory says and how it stands, in 64 hex digits, keyed so that nobody can guess contents from it.

Called by ``decide`` (makes it), the reconciler's deep mode and tests (make it again). Pure. Write times, access counters and
vectors are not part of it.
"""

import hashlib
import hmac

from schemas.digests import vector_digest
from schemas.memories import Memory
from streams.canonical import canonical_json, canonical_value

__all__ = ["content_hash", "keyed_digest", "vector_digest"]


def content_hash(memory: Memory, hash_key: bytes) -> str:
    """Return the HMAC-SHA-256 (64 hex digits) of the canonical form of ``memory`` under ``hash_key`` (32 bytes)."""
    canonical = {
        "memory_id": memory.memory_id,
        "tenant_id": memory.tenant_id,
        "user_id": memory.user_id,
        "version": memory.version,
        "status": memory.status,
        "value": canonical_value(memory.value) if memory.value else "",
        "content": memory.content,
        "confidence": float(memory.confidence),
        "importance": float(memory.importance),
        "scope": memory.scope,
        "event_time_ms": memory.event_time_ms,
        "valid_from_ms": memory.valid_from_ms,
        "valid_to_ms": memory.valid_to_ms,
        "expires_at_ms": memory.expires_at_ms,
        "edges": sorted([e.kind, e.target_kind, e.target_id, float(e.weight)] for e in memory.edges),
        "relations": sorted(
            [r.subject_type, r.subject_id, r.predicate, r.object_type, r.object_id, float(r.weight)]
            for r in memory.relations
        ),
    }
    return hmac.new(hash_key, canonical_json(canonical), hashlib.sha256).hexdigest()


def keyed_digest(hash_key: bytes, *parts: str) -> str:
    """Return 32 hex digits that stand for ``parts``; without ``hash_key`` nobody can test a guess against them."""
    return hmac.new(hash_key, "\x1f".join(parts).encode(), hashlib.sha256).hexdigest()[:32]
