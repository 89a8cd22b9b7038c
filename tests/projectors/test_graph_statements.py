"""Every statement for Neo4j names its tenant and user, or has a reason not to."""

import re

import pytest

from projectors.statements import ACROSS_USERS, FOLDER, across_users, checked, scoped
from schemas.errors import Broken

NAMES = sorted(path.stem for path in FOLDER.glob("*.cypher"))
SCOPED = [name for name in NAMES if name not in ACROSS_USERS]


def test_every_listed_exception_is_a_statement_that_exists() -> None:
    assert set(ACROSS_USERS) <= set(NAMES)


@pytest.mark.parametrize("name", SCOPED)
def test_a_readers_statement_uses_tenant_and_user(name: str) -> None:
    assert "$tenant_id" in scoped(name)


@pytest.mark.parametrize(
    "name", [name for name in ACROSS_USERS if not name.startswith(("constraint", "index", "ping"))]
)
def test_a_statement_across_users_stays_in_its_generation(name: str) -> None:
    assert "$generation" in across_users(name)


@pytest.mark.parametrize("name", SCOPED)
def test_a_readers_statement_may_not_run_across_users(name: str) -> None:
    with pytest.raises(Broken):
        across_users(name)


@pytest.mark.parametrize(
    "statement",
    [
        "MATCH (m:Memory) RETURN m",
        "MATCH (m:Memory {tenant_id: $tenant_id}) RETURN m",
        "MATCH (m:Memory {user_id: $user_id}) RETURN m",
        "// $tenant_id $user_id\nMATCH (m:Memory) RETURN m",
        "MATCH (m:Memory {tenant_id: $tenant_ids, user_id: $user_ids}) RETURN m",
    ],
)
def test_a_statement_without_its_scope_is_refused(statement: str) -> None:
    with pytest.raises(Broken):
        checked("test", statement)


def test_readers_never_write() -> None:
    for name in SCOPED:
        assert not re.search(r"\b(CREATE|MERGE|SET|DELETE|REMOVE)\b", scoped(name))
