"""The schema registry: which schema an id means, and which id a subject writes.

``FileRegistry`` reads ``schemas/avro``; its ids are committed, so every environment agrees and a replay needs no server.
``HttpRegistry`` speaks the Confluent protocol to a real registry. Both serve ``schemas.codec``.
"""

import hashlib
import json
import urllib.error
import urllib.request
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import fastavro

from schemas.errors import Misconfigured, Rejected, Retryable

AVRO_FOLDER = Path(__file__).parent / "avro"
MANIFEST = "manifest.json"


class Registry(Protocol):
    """Where schemas are looked up; both calls may raise ``Rejected`` (unknown) or ``Retryable`` (registry away)."""

    def schema_of_id(self, schema_id: int) -> tuple[str, Any]:
        """Return (subject, parsed schema) of an id."""
        ...

    def writer_of_subject(self, subject: str) -> tuple[int, Any]:
        """Return (id, parsed schema) that today's code writes for a subject."""
        ...


def normalised(schema: Any) -> str:
    """Return the one text form of a schema; unlike Avro's canonical form it keeps defaults and logical types."""
    return json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(schema: Any) -> str:
    """Return the SHA-256 (hex) of the whole normalised schema."""
    return hashlib.sha256(normalised(schema).encode()).hexdigest()


class FileRegistry:
    """The registry in the repository: ``<subject>/<n>.avsc`` and a manifest of committed ids with SHA-256."""

    def __init__(self, folder: Path = AVRO_FOLDER) -> None:
        self._by_id: dict[int, tuple[str, Any]] = {}
        self._newest: dict[str, tuple[int, Any]] = {}
        for subject, versions in json.loads((folder / MANIFEST).read_text("utf-8")).items():
            for entry in versions:
                raw = json.loads((folder / subject / f"{entry['version']}.avsc").read_text("utf-8"))
                if fingerprint(raw) != entry["sha256"]:
                    raise Misconfigured(f"schema {subject}/{entry['version']}.avsc was changed after it was committed")
                parsed = fastavro.parse_schema(raw)
                self._by_id[entry["id"]] = (subject, parsed)
                self._newest[subject] = (entry["id"], parsed)

    def schema_of_id(self, schema_id: int) -> tuple[str, Any]:
        """Return (subject, parsed schema); raises ``Rejected`` (code ``unknown_schema``)."""
        try:
            return self._by_id[schema_id]
        except KeyError:
            raise Rejected(f"schema id {schema_id} is not registered", code="unknown_schema") from None

    def writer_of_subject(self, subject: str) -> tuple[int, Any]:
        """Return (id, parsed schema) of the newest version; raises ``Misconfigured`` for a subject that has none."""
        try:
            return self._newest[subject]
        except KeyError:
            raise Misconfigured(f"no schema is committed for subject {subject}") from None


class HttpRegistry:
    """A Confluent-compatible registry at ``url``; answers are cached for the life of the process, ids never change."""

    def __init__(self, url: str, *, timeout_seconds: float = 5.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise Misconfigured("the schema registry's URL must start with http:// or https://")
        self._url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self.schema_of_id = lru_cache(maxsize=4096)(self._schema_of_id)
        self.writer_of_subject = lru_cache(maxsize=4096)(self._writer_of_subject)

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self._url + path, timeout=self._timeout_seconds) as answer:  # noqa: S310 - checked above
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise Rejected(f"the schema registry does not know {path}", code="unknown_schema") from error
            raise Retryable(f"the schema registry answered {error.code}") from error
        except (OSError, ValueError) as error:
            raise Retryable(f"the schema registry does not answer: {error}") from error

    def _schema_of_id(self, schema_id: int) -> tuple[str, Any]:
        raw = json.loads(self._get(f"/schemas/ids/{schema_id}")["schema"])
        return raw["name"].rpartition(".")[2], fastavro.parse_schema(raw)

    def _writer_of_subject(self, subject: str) -> tuple[int, Any]:
        answer = self._get(f"/subjects/{subject}/versions/latest")
        return answer["id"], fastavro.parse_schema(json.loads(answer["schema"]))
