"""The tables, and the way from one version of them to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    text,
    update,
)

metadata = MetaData()

# SQLite gives out row numbers for INTEGER keys only.
_number = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *columns: Column[Any] | Index) -> Table:
    """A table whose every row ends in a checksum.

    With one key column the database gives out its numbers, none of them twice; with several, rows
    are stored in the order of their key.
    """
    numbered = sum(isinstance(c, Column) and c.primary_key for c in columns) == 1
    return Table(
        name,
        metadata,
        *columns,
        Column("checksum", BigInteger, nullable=False),
        sqlite_autoincrement=numbered,
        sqlite_with_rowid=numbered,
    )


meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text))

batches = _table(
    "batches",
    Column("id", _number, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("identity", LargeBinary, nullable=False),
    Column("plan", LargeBinary),
    Column("options", LargeBinary, nullable=False),
    Column("code", LargeBinary, nullable=False),
    Column("seed", Text, nullable=False),
    Column("root", Text, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("frontier", BigInteger, nullable=False),
    Column("completed", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("cancelled", BigInteger, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("finished", Float),
    Column("seconds", Float, nullable=False),
    Column("control", Text),
    Column("counted", Float),
)

tasks = _table(
    "tasks",
    Column("batch", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
    Column("name", Text),
    Column("priority", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
)

queue = _table(
    "queue",
    Column("batch", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
    Column("priority", Integer, nullable=False),
    Column("waiting", Integer, nullable=False),
    Column("engine", BigInteger),
    Column("token", Text),
)
Index(
    "queue_next",
    queue.c.batch,
    queue.c.priority.desc(),
    queue.c.task,
    sqlite_where=queue.c.engine.is_(None) & (queue.c.waiting == 0),
    postgresql_where=queue.c.engine.is_(None) & (queue.c.waiting == 0),
)

edges = _table(
    "edges",
    Column("batch", BigInteger, primary_key=True),
    Column("before", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
)

claims = _table(
    "claims",
    Column("id", _number, primary_key=True),
    Column("batch", BigInteger, nullable=False, index=True),
    Column("low", BigInteger, nullable=False),
    Column("high", BigInteger, nullable=False),
    Column("engine", BigInteger),
    Column("token", Text, nullable=False),
)

outcomes = _table(
    "outcomes",
    Column("batch", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
    Column("status", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("value", LargeBinary),
    Column("error", LargeBinary),
    Column("started", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("worker", BigInteger, nullable=False),
)

pieces = _table(
    "pieces",
    Column("batch", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

attempts = _table(
    "attempts",
    Column("batch", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("crash", Integer, nullable=False),
    Column("error", LargeBinary, nullable=False),
    Column("started", Float, nullable=False),
    Column("seconds", Float, nullable=False),
)

outputs = _table(
    "outputs",
    Column("batch", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("stdout", LargeBinary),
    Column("stderr", LargeBinary),
)

cancels = _table(
    "cancels",
    Column("batch", BigInteger, primary_key=True),
    Column("task", BigInteger, primary_key=True),
)

engines = _table(
    "engines",
    Column("id", _number, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started", Float, nullable=False),
    Column("batch", BigInteger),
    Column("backend", Text, nullable=False),
    Column("workers", Integer, nullable=False),
    Column("running", Integer, nullable=False),
    Column("rate", Float, nullable=False),
    Column("stop", Integer, nullable=False),
)


def _create_all(connection: Connection) -> None:
    metadata.create_all(connection)


def _add_counted(connection: Connection) -> None:
    """Batches say up to when their seconds are counted; each row's seal covers that."""
    from runyard.store.statements import seal

    if any(column["name"] == "counted" for column in inspect(connection).get_columns("batches")):
        return
    connection.execute(text("ALTER TABLE batches ADD COLUMN counted FLOAT"))
    for row in connection.execute(select(batches)).all():
        *before, counted, stored = row
        if seal(batches, tuple(before)) == stored:
            renewed = {"checksum": seal(batches, (*before, counted))}
            connection.execute(update(batches).where(batches.c.id == row.id).values(renewed))


def is_current(connection: Connection) -> bool:
    """Whether the tables are there in this version's form; needs no right to write."""
    if not inspect(connection).has_table("meta"):
        return False
    query = meta.select().where(meta.c.key == "schema_version")
    found = connection.execute(query).one_or_none()
    return found is not None and str(found.value) == str(len(MIGRATIONS))


Migration = Callable[[Connection], None]

MIGRATIONS: tuple[Migration, ...] = (_create_all, _add_counted, _create_all)
"""Step n brings a store from version n to n + 1. Append; never change one that was released.

To create all tables is to create those that are missing: the last time, `pieces`.
"""


def migrate(connection: Connection, steps: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Bring a store to the present version, in the caller's transaction."""
    from runyard.errors import StoreDamaged, StoreError

    connection.execute(text("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT)"))
    found = connection.execute(meta.select().where(meta.c.key == "schema_version")).one_or_none()
    known = "0" if found is None else str(found.value)
    if not known.isdecimal():
        raise StoreDamaged(f"the store is damaged: its schema version is {known!r}")
    version = int(known)
    if version > len(steps):
        raise StoreError(
            f"this store has schema version {version}; this Runyard knows up to {len(steps)}",
            hint="upgrade Runyard: pip install -U runyard",
        )
    for step in steps[version:]:
        step(connection)
    if version < len(steps):
        connection.execute(meta.delete().where(meta.c.key == "schema_version"))
        connection.execute(meta.insert().values(key="schema_version", value=str(len(steps))))
