"""What Postgres says of a value stays in its log: our sentence names code, constraint and column, never the value."""

import psycopg
import pytest

from schemas.errors import Broken, EngramError, Misconfigured, Rejected
from schemas.settings import Settings
from streams.postgres import connect, translated

pytestmark = pytest.mark.stack
TABLE = (
    "CREATE TEMP TABLE said (word text CONSTRAINT said_once UNIQUE,"
    " number integer NOT NULL CONSTRAINT small CHECK (number < 9))"
)
INSERT = "INSERT INTO said (word, number) VALUES (%s, %s)"


@pytest.mark.parametrize("secret", ["我的密码是花生", "my password is peanut"])
@pytest.mark.parametrize(
    ("number", "kind", "named"),
    [(1, Broken, "said_once"), (9, Rejected, "small"), (None, Broken, "number"), ("secret", Rejected, "22P02")],
)
async def test_a_refusal_names_the_constraint_and_not_the_value(
    settings: Settings, secret: str, number: object, kind: type[EngramError], named: str
) -> None:
    connection = await connect(settings, settings.postgres_admin_user, autocommit=True)
    await connection.execute(TABLE)
    await connection.execute(INSERT, (secret, 1))
    word = secret if number == 1 else f"{secret} 2"
    with pytest.raises(kind) as raised, translated():
        await connection.execute(INSERT, (word, secret if number == "secret" else number))
    await connection.close()
    assert secret in str(raised.value.__cause__)
    assert secret not in str(raised.value)
    assert named in str(raised.value)


async def test_what_cannot_connect_says_what_to_check(settings: Settings) -> None:
    with pytest.raises(EngramError) as raised:
        await connect(settings, settings.postgres_admin_user, database="there_is_none")
    assert isinstance(raised.value.__cause__, psycopg.Error)
    assert isinstance(raised.value, Misconfigured) or "there_is_none" in str(raised.value)
