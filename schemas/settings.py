"""Every setting and every limit, with its unit in its name.

Read once by an entry point (``load_settings``) and handed on; nothing else reads the environment. Each field is the
variable ``ENGRAM_<NAME>``. A wrong value ends the process with one sentence that names the variable.
"""

import base64
import binascii
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.errors import Misconfigured
from schemas.sealing import KEY_BYTES, derive_key

Port = Annotated[int, Field(ge=1, le=65_535)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseSettings):
    """The whole configuration of one process."""

    model_config = SettingsConfigDict(env_prefix="ENGRAM_", extra="ignore", frozen=True)

    # Kafka
    kafka_bootstrap_servers: str = "127.0.0.1:9092"
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_sasl_username: str = ""
    kafka_sasl_password: SecretStr = SecretStr("")
    topic_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9._-]{0,64}$")
    partitions: Annotated[int, Field(ge=1, le=1000)] = 24
    replication_factor: Annotated[int, Field(ge=1, le=16)] = 1
    session_timeout_seconds: Seconds = 10.0
    max_poll_seconds: Seconds = 120.0
    schema_registry_url: str = ""

    # Postgres: the truth, and the key store in a database of its own
    postgres_host: str = "127.0.0.1"
    postgres_port: Port = 5432
    postgres_database: str = Field(default="engram", pattern=r"^[a-z_][a-z0-9_]{0,62}$")
    postgres_keys_database: str = Field(default="engram_keys", pattern=r"^[a-z_][a-z0-9_]{0,62}$")
    postgres_password: SecretStr = SecretStr("")
    postgres_admin_user: str = "postgres"
    postgres_admin_password: SecretStr = SecretStr("")
    postgres_sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    postgres_connect_timeout_seconds: Seconds = 5.0
    postgres_statement_timeout_seconds: Seconds = 30.0
    postgres_idle_in_transaction_seconds: Seconds = 10.0

    # Derived stores
    milvus_uri: str = "http://127.0.0.1:19530"
    milvus_token: SecretStr = SecretStr("")
    neo4j_uri: str = "bolt://127.0.0.1:7687"
    neo4j_user: str = "neo4j"
    neo4j_password: SecretStr = SecretStr("")
    influx_url: str = "http://127.0.0.1:8086"
    influx_token: SecretStr = SecretStr("")
    influx_org: str = "engram"
    store_timeout_seconds: Seconds = 20.0

    # Keys
    master_key: SecretStr = SecretStr("")
    hash_key: SecretStr = SecretStr("")
    key_cache_seconds: Annotated[float, Field(gt=0, le=10)] = 10.0
    minted_keys_per_user: Count = 8

    # What is understood and how
    extractor: Literal["rules"] = "rules"
    embedder: str = "use"
    tenant_timezone_offset: str = Field(default="+00:00", pattern=r"^[+-]\d\d:\d\d$")
    pii_profile: Literal["default", "strict"] = "default"
    pending_confidence: Annotated[float, Field(ge=0, le=1)] = 0.6
    pending_days: Count = 30

    # Limits
    input_limit_bytes: Count = 1024 * 1024
    stage_limit_bytes: Count = 8 * 1024 * 1024
    facts_per_turn: Count = 100
    clock_ahead_hours: Count = 24
    attempts: Count = 5
    similar_memories: Count = 50
    recall_limit: Annotated[int, Field(ge=1, le=100)] = 10
    recall_candidates: Annotated[int, Field(ge=1, le=1000)] = 20
    recall_deadline_seconds: Seconds = 2.0
    max_hops: Annotated[int, Field(ge=0, le=4)] = 2

    # Relay, projectors, rebuild, reconcile
    relay_claim_rows: Count = 500
    relay_attempts: Count = 10
    relay_poll_seconds: Seconds = 0.5
    projector_batch_rows: Count = 500
    projector_linger_ms: Annotated[int, Field(ge=0, le=5_000)] = 500
    milvus_flush_rows: Count = 5_000
    rebuild_batch_rows: Count = 2_000
    rebuild_flush_rows: Count = 20_000
    drain_seconds: Annotated[float, Field(ge=0)] = 60.0
    reconcile_page_rows: Count = 16_000
    reconcile_repair_share: Annotated[float, Field(ge=0, le=1)] = 0.2

    # This process
    state_dir: Path = Path(".engram")
    heartbeat_file: Path | None = None
    # /metrics, /healthz and /readyz; 0 serves nothing
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    metrics_host: str = "127.0.0.1"
    crash_at: str = Field(default="", pattern=r"^([a-z0-9_]+:[1-9][0-9]*)?$")
    stop_seconds: Seconds = 10.0

    @field_validator("master_key", "hash_key")
    @classmethod
    def _key_of_32_bytes(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and len(_key_bytes(value)) != KEY_BYTES:
            raise ValueError("must be 32 bytes in URL-safe base64")
        return value

    def master_key_bytes(self) -> bytes:
        """Return the master key (32 bytes); raises ``Misconfigured`` when it is not set."""
        if not self.master_key.get_secret_value():
            raise Misconfigured("ENGRAM_MASTER_KEY is not set: give 32 bytes in URL-safe base64")
        return _key_bytes(self.master_key)

    def hash_key_bytes(self) -> bytes:
        """Return the key of content hashes (32 bytes): ``ENGRAM_HASH_KEY``, else derived from the master key."""
        if self.hash_key.get_secret_value():
            return _key_bytes(self.hash_key)
        return derive_key(self.master_key_bytes(), "content-hash")


def _key_bytes(value: SecretStr) -> bytes:
    try:
        return base64.b64decode(value.get_secret_value().encode(), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("must be 32 bytes in URL-safe base64") from error


def load_settings() -> Settings:
    """Read the environment; raises ``Misconfigured`` with one sentence that names the variable."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        raise Misconfigured(f"ENGRAM_{name} is wrong: {first['msg'].removeprefix('Value error, ')}") from None
