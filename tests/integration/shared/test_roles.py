"""Roles in PostgreSQL with odd settings, and with few rights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from databases import postgres_url
from psycopg import conninfo, sql
from sample_tasks import double, fails, tossed

import runyard as ry
from runyard.errors import StoreError

ODD = {
    "statement_timeout": "1",
    "lock_timeout": "1",
    "idle_in_transaction_session_timeout": "1",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "TimeZone": "Pacific/Apia",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "client_encoding": "LATIN1",
}
LATER = {"idle_session_timeout": (140000, "50"), "transaction_timeout": (170000, "50")}


class Role:
    """A role of the test's own, and the place of its yard."""

    def __init__(self, admin: str, name: str) -> None:
        self.admin = admin
        self.name = name
        self.schema = str(conninfo.conninfo_to_dict(admin)["options"]).partition("=")[2]
        given = admin.partition("://")[2]
        _, at, rest = given.rpartition("@") if "@" in given.partition("?")[0] else ("", "", given)
        self.url = f"postgresql://{quote(name)}@{rest}"
        assert at

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.admin, autocommit=True) as connection:
            for statement in statements:
                connection.execute(
                    sql.SQL(statement).format(  # type: ignore[arg-type]
                        role=sql.Identifier(self.name),
                        schema=sql.Identifier(self.schema),
                        database=sql.Identifier(connection.info.dbname),
                    )
                )


@pytest.fixture
def role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Role]:
    """One that may do everything in its own schema, and nothing else: no temporary tables."""
    monkeypatch.setenv("RUNYARD_FILES", str(tmp_path / "files"))
    admin = postgres_url()
    found = Role(admin, f"role {os.getpid()} {tmp_path.name}")
    found.execute(
        "CREATE ROLE {role} LOGIN",
        "REVOKE TEMP ON DATABASE {database} FROM PUBLIC",
        "GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}",
    )
    yield found
    found.execute(
        "GRANT TEMP ON DATABASE {database} TO PUBLIC",
        "DROP OWNED BY {role} CASCADE",
        "DROP ROLE {role}",
    )


def test_settings_of_a_role_change_nothing(role: Role, tmp_path: Path) -> None:
    with psycopg.connect(role.admin) as connection:
        version = connection.info.server_version
    later = {name: value for name, (since, value) in LATER.items() if version >= since}
    role.execute(*(f"ALTER ROLE {{role}} SET {k} = '{v}'" for k, v in {**ODD, **later}.items()))
    batch = ry.grid(tossed, coins=[10, 100], replicates=100, seed=7, name="b")
    listed = ry.tasks([ry.Task(fails, {"x": x}, name=f"täsk {x}") for x in range(6)], name="l")
    with ry.Yard(role.url) as shared, ry.Yard(tmp_path / "yard") as own:
        for each in (batch, listed):
            theirs, ours = shared.run(each, backend="threads"), own.run(each, backend="threads")
            assert theirs.digest == ours.digest is not None
            assert [o.value for o in theirs.outcomes()] == [o.value for o in ours.outcomes()]
        assert list(shared.store.check()) == []


def test_a_role_without_temporary_tables_runs_batches(role: Role) -> None:
    with ry.Yard(role.url) as yard:
        assert yard.run(ry.grid(double, x=range(10), seed=1, name="b")).stats.completed == 10


def test_a_role_that_may_only_read_reads_everything_and_is_told_what_it_lacks_to_run(
    role: Role,
) -> None:
    batch = ry.grid(fails, x=range(10), seed=1, name="b")
    with ry.Yard(role.admin) as owner:
        digest = owner.run(batch, backend="serial").digest
    role.execute(
        "REVOKE CREATE ON SCHEMA {schema} FROM {role}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    with ry.Yard(role.url) as yard:
        assert [result.name for result in yard.status()] == ["b"]
        result = yard.results("b")
        assert result.digest == digest
        assert len(result.failures()) == 1
        assert len(list(result.outcomes())) == 10
        assert list(yard.store.check()) == []
        with pytest.raises(StoreError, match="permission denied") as refused:
            yard.run(ry.grid(double, x=range(10), seed=1, name="c"), backend="serial")
        assert "GRANT" in str(refused.value.hint)
    role.execute(
        "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    )
    with ry.Yard(role.url) as yard:  # what the hint says is enough
        assert yard.run(ry.grid(double, x=range(9), seed=1, name="c")).stats.completed == 9


def test_a_role_that_may_not_make_the_tables_is_told_so_when_it_opens_the_yard(role: Role) -> None:
    role.execute("REVOKE CREATE ON SCHEMA {schema} FROM {role}")
    with ry.Yard(role.url) as yard, pytest.raises(StoreError, match="permission denied") as refused:
        yard.status()
    assert "GRANT CREATE ON SCHEMA" in str(refused.value.hint)
