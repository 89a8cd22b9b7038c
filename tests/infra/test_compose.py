"""docker-compose.yml against the schema of the compose specification, and against this project's own rules."""

import json
import re
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from infra.container_health import is_healthy
from infra.servers.kafka import MESSAGE_LIMIT_BYTES, YEAR_MINUTES
from infra.workers import ROLES, worker_name
from schemas.settings import Settings

CHECKOUT = Path(__file__).parents[2]
FILE = CHECKOUT / "docker-compose.yml"
SERVERS = {"kafka", "postgres", "milvus", "neo4j", "influx"}
VARIABLE = re.compile(r"\$(?P<escaped>\$)|\$\{(?P<name>[A-Z0-9_]+)(?:(?P<sign>:[?-])(?P<rest>[^}]*))?\}|(?P<wrong>\$)")


def interpolate(text: str, variables: dict[str, str]) -> str:
    """Replace ``${NAME:?message}`` and ``${NAME:-default}`` as Compose does; other forms are not used here."""

    def value(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$"
        if found["wrong"] or not found["sign"]:
            raise ValueError(f"not a form with a message or a default: {text}")
        given = variables.get(found["name"], "")
        if not given and found["sign"] == ":?":
            raise LookupError(f"{found['name']}: {found['rest']}")
        return given or str(found["rest"])

    return VARIABLE.sub(value, text)


def texts(value: object) -> list[str]:
    """Return every text in a document, keys too."""
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (*texts(key), *texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def resolve(value: Any, variables: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: resolve(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, variables) for item in value]
    return interpolate(value, variables) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(YAML(typ="safe").load(FILE.read_text())))
    return content


@pytest.fixture(scope="module")
def required(document: dict[str, Any]) -> set[str]:
    return {found["name"] for text in texts(document) for found in VARIABLE.finditer(text) if found["sign"] == ":?"}


@pytest.fixture(scope="module")
def services(document: dict[str, Any], required: set[str]) -> dict[str, Any]:
    resolved: dict[str, Any] = resolve(document, {name: f"secret-{name}" for name in required})["services"]
    return resolved


def specification() -> dict[str, Any]:
    """Return the schema of the compose specification that the package ``check-jsonschema`` ships."""
    found = find_spec("check_jsonschema")
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_the_file_follows_the_compose_specification(document: dict[str, Any], required: set[str]) -> None:
    schema = specification()
    jsonschema.validate(document, schema)
    jsonschema.validate(resolve(document, dict.fromkeys(required, "given")), schema)


def test_the_schema_refuses_a_wrong_file(document: dict[str, Any]) -> None:
    wrong = {**document, "services": {"kafka": {"image": "apache/kafka", "restarts": "always"}}}
    with pytest.raises(jsonschema.ValidationError, match="restarts"):
        jsonschema.validate(wrong, specification())


def test_every_secret_comes_from_the_environment_and_is_named_when_it_is_missing(
    document: dict[str, Any], required: set[str]
) -> None:
    assert required == {
        "ENGRAM_INFLUX_PASSWORD",
        "ENGRAM_INFLUX_TOKEN",
        "ENGRAM_KAFKA_CLUSTER_ID",
        "ENGRAM_MASTER_KEY",
        "ENGRAM_MILVUS_PASSWORD",
        "ENGRAM_NEO4J_PASSWORD",
        "ENGRAM_POSTGRES_ADMIN_PASSWORD",
        "ENGRAM_POSTGRES_PASSWORD",
    }
    for name in required:
        given = dict.fromkeys(required - {name}, "given")
        with pytest.raises(LookupError, match=f"{name}: set the "):
            resolve(document, given)


def test_no_variable_that_looks_like_a_secret_is_written_down(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|MASTER_KEY|_AUTH$", variable) and not variable.endswith(
                "AUTHORIZATIONENABLED"
            ):
                assert ":?" in value, f"{name}: {variable}"


def test_there_is_one_container_for_each_worker_role(services: dict[str, Any]) -> None:
    commands = {name: service["command"] for name, service in services.items() if name.endswith("-worker")}
    assert commands == {worker_name(role): ["worker", role] for role in ROLES}
    assert set(services) == SERVERS | set(commands) | {"migrate", "engram"}


def test_every_variable_of_a_worker_is_a_setting(services: dict[str, Any]) -> None:
    for name in [*map(worker_name, ROLES), "migrate", "engram"]:
        variables = {key.removeprefix("ENGRAM_").lower() for key in services[name]["environment"]}
        assert variables <= set(Settings.model_fields), name


def test_only_migrate_knows_the_administrator(services: dict[str, Any]) -> None:
    knowing = {name for name, service in services.items() if "secret-ENGRAM_POSTGRES_ADMIN_PASSWORD" in texts(service)}
    assert knowing == {"postgres", "migrate"}


def test_what_runs_for_long_is_checked_and_started_again(services: dict[str, Any]) -> None:
    for name in {*SERVERS, *map(worker_name, ROLES)}:
        assert services[name]["restart"] == "unless-stopped", name
        assert services[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}, name


def test_workers_wait_for_the_migration_and_not_for_a_derived_store(services: dict[str, Any]) -> None:
    for role in ROLES:
        awaited = services[worker_name(role)]["depends_on"]
        assert awaited["migrate"] == {"condition": "service_completed_successfully"}
        assert not set(awaited) & {"milvus", "neo4j", "influx"}


def test_servers_keep_their_data_and_have_a_version(document: dict[str, Any], services: dict[str, Any]) -> None:
    for name in SERVERS:
        volumes = {volume.split(":")[0] for volume in services[name]["volumes"]}
        assert volumes
        assert volumes <= set(document["volumes"])
        _, _, tag = services[name]["image"].partition(":")
        assert tag
        assert tag != "latest"


def test_what_a_worker_counts_outlives_its_container(document: dict[str, Any], services: dict[str, Any]) -> None:
    """An input that ends its worker every time is a dead letter only if the count of its attempts survives."""
    dockerfile = (CHECKOUT / "infra" / "Dockerfile").read_text()
    for role in ROLES:
        service = services[worker_name(role)]
        folder = service["environment"]["ENGRAM_STATE_DIR"]
        mounted = dict(reversed(volume.split(":")[:2]) for volume in service["volumes"])
        assert mounted[folder] in document["volumes"], role
        assert not any(entry.split(":")[0] == folder for entry in service["tmpfs"]), role
        # The worker is not root, and a volume is as its folder in the image.
        assert f"--owner=engram --group=engram --mode=0700 {folder}" in dockerfile


def test_nothing_but_kafka_is_reachable_and_only_from_this_machine(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"kafka": ["127.0.0.1:9092:9092"]}


def test_kafka_has_the_limits_of_the_local_stack(services: dict[str, Any]) -> None:
    environment = services["kafka"]["environment"]
    assert environment["KAFKA_MESSAGE_MAX_BYTES"] == str(MESSAGE_LIMIT_BYTES)
    assert environment["KAFKA_REPLICA_FETCH_MAX_BYTES"] == str(MESSAGE_LIMIT_BYTES)
    assert environment["KAFKA_OFFSETS_RETENTION_MINUTES"] == str(YEAR_MINUTES)
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_the_image_has_everything_it_copies() -> None:
    lines = (CHECKOUT / "infra" / "Dockerfile").read_text().splitlines()
    sources = [line.split()[1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    assert "requirements.lock" in sources
    allowed = (CHECKOUT / "infra" / "Dockerfile.dockerignore").read_text().splitlines()
    for source in sources:
        assert (CHECKOUT / source).exists(), source
        assert f"!{source}" in allowed, source


@pytest.mark.parametrize(
    ("state", "age_seconds", "healthy"),
    [("ready", 0, True), ("waiting", 29, True), ("ready", 31, False), ("starting", 0, False), ("stopping", 0, False)],
)
def test_a_container_is_healthy_while_its_heartbeat_is(
    tmp_path: Path, state: str, age_seconds: int, healthy: bool
) -> None:
    heartbeat = tmp_path / "heartbeat.json"
    heartbeat.write_text(json.dumps({"pid": 1, "role": "relay", "state": state, "detail": "", "at_ms": 0}))
    assert is_healthy(heartbeat, heartbeat.stat().st_mtime + age_seconds) is healthy


def test_a_container_without_a_heartbeat_is_not_healthy(tmp_path: Path) -> None:
    assert not is_healthy(tmp_path / "none.json", time.time())
