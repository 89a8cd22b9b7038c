"""Isolation in Postgres: a missing scope raises, a foreign one sees nothing, and without the policies the same test fails."""

import asyncio

import psycopg
import pytest
from truth_bench import Bench, opened
from truth_world import candidate, said, vector

from infra.migrate import LOGIN_ROLES
from schemas.candidates import Relation
from schemas.errors import Broken, Rejected
from schemas.settings import Settings
from streams.postgres import Connection, borrowed, connect, pool, scoped

pytestmark = pytest.mark.stack

SCOPED = (
    "memories", "memory_history", "memory_edges", "entities", "relations", "memory_vectors", "memory_access", "pending",
    "review", "quarantine", "before_marks", "command_outcomes", "user_positions", "delegations", "chat_history",
    "working_memory", "working_events", "memory_outbox", "outbox_dead",
)  # fmt: skip
WITHOUT_TENANT = {"positions", "projections", "migrations", "topic_identities"}


async def _fill(bench: Bench) -> None:
    relation = Relation(subject_type="user", subject_id="self", predicate="p", object_type="o", object_id="x")
    for offset, (tenant, user) in enumerate((("acme", "alice"), ("acme", "bob"), ("globex", "alice"))):
        facts = (
            candidate("city", '"深圳"', vectors=(vector(1, 0),), relations=(relation,)),
            candidate("job", '"x"', confidence=0.3),
        )
        await bench.apply(said(1, *facts, tenant_id=tenant, user_id=user), offset)


async def _visible(connection: Connection, table: str) -> set[tuple[str, str]]:
    rows = await (await connection.execute(f"SELECT tenant_id, user_id FROM {table}")).fetchall()
    return set(rows)


async def test_every_table_with_a_tenant_is_forced_and_no_role_passes_by(settings: Settings) -> None:
    connection = await connect(settings, settings.postgres_admin_user, autocommit=True)
    rows = await (
        await connection.execute(
            "SELECT relname, relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner), EXISTS (SELECT FROM pg_attribute"
            " WHERE attrelid = c.oid AND attname = 'tenant_id') FROM pg_class AS c WHERE relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace"
        )
    ).fetchall()
    with_tenant = {name for name, _, _, _, has_tenant in rows if has_tenant}
    assert set(SCOPED) <= with_tenant
    assert all(enabled and forced for name, enabled, forced, _, has in rows if has and name in SCOPED)
    assert {owner for _, _, _, owner, _ in rows} == {"engram_owner"}
    assert {name for name, _, _, _, has in rows if not has} >= WITHOUT_TENANT
    keys = await (
        await connection.execute(
            "SELECT indexrelid::regclass::text FROM pg_index"
            " JOIN pg_attribute AS a ON a.attrelid = indrelid AND a.attnum = indkey[0]"
            " JOIN pg_class AS c ON c.oid = indrelid WHERE indisunique AND relname = ANY(%s) AND attname <> 'tenant_id'"
            " AND relname NOT IN ('memory_outbox', 'outbox_dead')",
            [list(SCOPED)],
        )
    ).fetchall()
    assert keys == []
    roles = await (
        await connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcanlogin FROM pg_roles WHERE rolname LIKE 'engram_%'"
        )
    ).fetchall()
    await connection.close()
    assert {name for name, superuser, bypass, _ in roles if superuser or bypass} == set()
    assert {name for name, _, _, login in roles if login} >= set(LOGIN_ROLES)
    assert ("engram_owner", False, False, False) in roles


async def test_a_missing_or_empty_scope_raises(settings: Settings) -> None:
    async with opened(settings) as bench:
        await _fill(bench)
        for role in ("engram_reader", "engram_writer"):
            connection = await connect(settings, role)
            for table in ("memories", "memory_vectors", "memory_edges", "command_outcomes"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=r"engram\.\w+_id is not set"):
                    await _visible(connection, table)
                await connection.rollback()
            # A pooled connection answers with an empty setting from its second transaction on.
            async with scoped(connection, "acme", "alice"):
                assert await _visible(connection, "memories") == {("acme", "alice")}
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await _visible(connection, "memories")
            await connection.close()


async def test_a_user_sees_and_changes_only_what_is_his(settings: Settings) -> None:
    async with opened(settings) as bench:
        await _fill(bench)
        before = await bench.rows(
            "SELECT * FROM memories WHERE user_id <> 'alice' OR tenant_id <> 'acme' ORDER BY 1, 2"
        )
        writer = await connect(settings, "engram_writer")
        async with scoped(writer, "acme", "alice"):
            for table in (
                "memories",
                "memory_history",
                "memory_edges",
                "relations",
                "entities",
                "memory_vectors",
                "pending",
            ):
                assert await _visible(writer, table) == {("acme", "alice")}
            assert (await writer.execute("UPDATE memories SET content = 'stolen' WHERE user_id = 'bob'")).rowcount == 0
            await writer.execute("DELETE FROM memories")
        for statement in (
            "UPDATE pending SET user_id = 'bob'",
            "UPDATE pending SET tenant_id = 'globex'",
            "INSERT INTO before_marks VALUES ('globex', 'alice', '', 1)",
        ):
            with pytest.raises(Broken, match="42501"):
                async with scoped(writer, "acme", "alice"):
                    await writer.execute(statement)
        await writer.close()
        after = await bench.rows("SELECT * FROM memories WHERE user_id <> 'alice' OR tenant_id <> 'acme' ORDER BY 1, 2")
        assert before == after
        assert len(after) == 2


async def test_without_the_policies_the_same_look_shows_everybody(settings: Settings) -> None:
    """The control run: it is the policies that keep users apart, not the queries of this test."""
    async with opened(settings) as bench:
        await _fill(bench)
        await bench.admin.execute("ALTER TABLE memories DISABLE ROW LEVEL SECURITY")
        reader = await connect(settings, "engram_reader")
        async with scoped(reader, "acme", "alice"):
            assert await _visible(reader, "memories") == {("acme", "alice"), ("acme", "bob"), ("globex", "alice")}
        await reader.close()


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("engram_relay", {"memory_outbox", "memories", "memory_edges"}, {"pending", "chat_history", "quarantine"}),
        (
            "engram_reconcile",
            {"memories", "memory_edges", "memory_outbox"},
            {"pending", "chat_history", "before_marks"},
        ),
        ("engram_projector", set(), {"memories", "memory_outbox", "pending", "working_events"}),
        ("engram_working", set(), {"memories", "memory_history", "pending"}),
    ],
)
async def test_roles_across_users_see_what_their_work_needs(
    settings: Settings, role: str, may: set[str], may_not: set[str]
) -> None:
    async with opened(settings) as bench:
        await _fill(bench)
        connection = await connect(settings, role, autocommit=True)
        for table in may:
            assert len(await _visible(connection, table)) == 3
        for table in may_not:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await _visible(connection, table)
        await connection.close()


async def test_conflicts_of_every_user_are_for_reconcile_and_projectors_only(settings: Settings) -> None:
    connection = await connect(settings, settings.postgres_admin_user, autocommit=True)
    rows = await (
        await connection.execute(
            "SELECT rolname, has_table_privilege(rolname, 'projection_conflicts', 'SELECT') FROM pg_roles"
            " WHERE rolname LIKE 'engram\\_%' AND rolcanlogin"
        )
    ).fetchall()
    await connection.close()
    assert {name for name, may in rows if may} == {"engram_projector", "engram_reconcile"}
    reader = await connect(settings, "engram_reader", autocommit=True)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await reader.execute("SELECT count(*) FROM projection_conflicts")
    await reader.close()


async def test_reconcile_may_lock_and_ask_for_repairs_but_change_nothing(settings: Settings) -> None:
    async with opened(settings) as bench:
        await _fill(bench)
        connection = await connect(settings, "engram_reconcile", autocommit=True)
        assert len(await (await connection.execute("SELECT 1 FROM memories FOR UPDATE")).fetchall()) == 3
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute("UPDATE memories SET updated_at_ms = 0")
        row = "(gen_random_uuid(), 'a', 'acme', 'alice', 0, 1, 'memory.updated', 'memory', {}, {}, 'k')"
        insert = (
            "INSERT INTO memory_outbox (event_id, aggregate_id, tenant_id, user_id, shard, aggregate_version, event_type, target,"
            " repair_header, payload, repair_dedupe_key) VALUES "
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute(insert + row.format("'{}'", "'\\x00'"))
        assert (await connection.execute(insert + row.format("'{}'", "NULL"))).rowcount == 1
        await connection.close()


@pytest.mark.parametrize("bad", ["", "a b", 'a" or user_id != "', "x" * 129, "a\n", "用户"])
async def test_ids_that_are_none_never_reach_the_server(settings: Settings, bad: str) -> None:
    connection = await connect(settings, "engram_reader")
    for tenant, user in ((bad, "alice"), ("acme", bad)):
        with pytest.raises(Rejected):
            async with scoped(connection, tenant, user):
                pytest.fail("a scope was opened")
    await connection.close()


async def test_a_cancelled_task_never_leaves_its_answer_to_somebody_else(settings: Settings) -> None:
    async with opened(settings) as bench:
        await _fill(bench)
        connections = await pool(settings, "engram_reader", 3)

        async def ask(user: str, seconds: float) -> set[tuple[str, str]]:
            async with borrowed(connections) as connection, scoped(connection, "acme", user):
                await connection.execute("SELECT pg_sleep(%s)", (seconds,))
                return await _visible(connection, "memories")

        for _ in range(15):
            storm = [asyncio.create_task(ask("alice", 0.05)) for _ in range(3)]
            await asyncio.wait(storm, timeout=0.01)
            for task in storm:
                task.cancel()
            await asyncio.gather(*storm, return_exceptions=True)
            assert await asyncio.gather(*(ask("bob", 0) for _ in range(3))) == [{("acme", "bob")}] * 3
        await connections.close()
