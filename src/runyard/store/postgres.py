"""PostgreSQL: the store that machines share. Only what differs from SQLite is here.

Transactions of several engines overlap. What keeps them apart: row locks on claims and batches
(see `sql`), leases on the database's own clock (see `lease`), and news by NOTIFY.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import psycopg
import sqlalchemy
from psycopg import errors
from sqlalchemy import ARRAY, BigInteger, Column, ColumnElement, Connection, Dialect, Table, any_
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects import postgresql

from runyard import addresses, faults
from runyard.errors import (
    StoreAway,
    StoreConflict,
    StoreDamaged,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreGone,
)
from runyard.spec.outcome import WIDTH, Rows
from runyard.store.arrays import packed
from runyard.store.base import Store
from runyard.store.check import check_rows
from runyard.store.lease import LEASE_SECONDS, Leases
from runyard.store.news import Listener, channel_of
from runyard.store.reading import SqlSnapshot
from runyard.store.rows import BatchRow
from runyard.store.schema import MIGRATIONS, migrate
from runyard.store.sessions import Sessions
from runyard.store.sql import SqlTransaction
from runyard.store.writing import Clash, Values

LOOK_SECONDS = 3.0
"""How often to look for what no news tells of: engines that died."""

CLOSE_SECONDS = 2.0
"""How long a server that does not answer may keep a store from closing."""

_KINDS = ("int8", "int4", "int4", "bytea", "bytea", "float8", "float8", "int8", "int8")
_ARRAYS = ", ".join(f"%b::{kind}[]" for kind in _KINDS)
_INSERT_OUTCOMES = f"""
    INSERT INTO outcomes SELECT %s::int8, * FROM unnest({_ARRAYS}) ON CONFLICT DO NOTHING
"""
_VERSION = "SELECT value FROM meta WHERE key = 'schema_version'"

_DIALECT: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
_CONFLICTS = (
    errors.DeadlockDetected, errors.SerializationFailure,
    errors.QueryCanceled, errors.LockNotAvailable,
)  # fmt: skip
_PASSING = (
    errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout, errors.IdleSessionTimeout, errors.TooManyConnections,
)  # fmt: skip


_RIGHTS = """\
to read:   GRANT USAGE ON SCHEMA …; GRANT SELECT ON ALL TABLES IN SCHEMA …
to run:    GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … as well,
           and GRANT USAGE ON ALL SEQUENCES IN SCHEMA …
to set up: GRANT CREATE ON SCHEMA … for the first use of a yard"""


class PostgresTransaction(SqlTransaction):
    """Reads and writes beside those of other engines."""

    def batch(self, name: str) -> BatchRow | None:
        row = super().batch(name)
        if row is None:  # let no other make it before this transaction has
            query = "SELECT pg_advisory_xact_lock(hashtext('runyard.batch'), hashtext(%s))"
            self._driver.execute(query, [name])
            row = super().batch(name)
        return row

    def sign_off(self, engine: int) -> None:
        super().sign_off(engine)
        self._driver.execute("DELETE FROM leases WHERE engine = %s", [engine])

    def _insert_outcomes(self, batch: int, status: int, rows: Rows) -> int:  # noqa: ARG002
        columns = [packed(kind, rows.flat[at::WIDTH]) for at, kind in enumerate(_KINDS)]
        return self._driver.execute(_INSERT_OUTCOMES, [batch, *columns]).rowcount

    def _insert_sealed(self, table: Table, rows: Sequence[Values], clash: Clash) -> None:
        source, arrays = _unnested(list(table.c), rows)
        query = f"INSERT INTO {table.name} SELECT * FROM {source} {_on(clash, table)}"
        self._driver.execute(query, arrays)

    def _put_sealed(self, table: Table, rows: Sequence[Values]) -> None:
        source, arrays = _unnested(list(table.c), rows)
        changed = ", ".join(f'"{c.name}" = v."{c.name}"' for c in table.c if not c.primary_key)
        query = f"UPDATE {table.name} t SET {changed} FROM {source} WHERE {_same_key(table)}"
        self._driver.execute(query, arrays)

    def _among(self, column: Column[int], numbers: Sequence[int]) -> ColumnElement[bool]:
        return column == any_(cast_to(list(numbers), ARRAY(BigInteger)))

    def _notify(self, batch: int) -> None:
        channel = channel_of(self._driver)
        self._driver.execute("SELECT pg_notify(%s, %s)", [channel, str(batch)])

    @property
    def _driver(self) -> psycopg.Connection[Any]:
        return cast("psycopg.Connection[Any]", self._connection.connection.driver_connection)


class PostgresStore(Store):
    """A store in a PostgreSQL database."""

    look_seconds = LOOK_SECONDS

    def __init__(self, url: str) -> None:
        self.location = addresses.shown(url)
        self._url = url
        self._writing = threading.RLock()
        self._writer: Connection | None = None
        self._patient = False
        with self._translated():
            self._sessions = Sessions(url, LEASE_SECONDS)
        # Not a method, as in `sqlite`.
        creator: Any = self._sessions.connect
        self._engine = sqlalchemy.create_engine(
            "postgresql+psycopg://", creator=creator, pool_size=2, max_overflow=60
        )
        self._reader = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._leases = Leases(creator, self._translated, self._sessions.owner)
        self._listener = Listener(creator)
        try:
            with self._translated():
                if not self._is_current():
                    self._make_current()
        except BaseException:
            self._engine.dispose()
            raise
        self._patient = True

    @property
    def is_hurried(self) -> bool:
        return self._sessions.is_hurried

    def hurry(self, seconds: float) -> None:
        self._sessions.hurry(seconds)

    def relax(self) -> None:
        self._sessions.relax()

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        self._leases.watch()
        with self._writing, self._translated():
            try:
                if self._writer is None or not _answers(self._writer):
                    self._drop_writer()
                    self._writer = self._opened(self._engine)
                with self._writer.begin():
                    yield PostgresTransaction(self._writer, self.alive)
                    faults.point("commit")
            except BaseException:
                if self._writer is not None and _is_broken(self._writer):
                    self._drop_writer()
                raise

    @contextmanager
    def snapshot(self) -> Iterator[SqlSnapshot]:
        with (
            self._translated(),
            self._opened(self._reader) as connection,
            connection.begin(),
        ):
            _let_idle(connection)
            yield SqlSnapshot(connection)

    def alive(self, engine: int) -> bool:
        return self._leases.live(engine)

    def hold_life(self, engine: int) -> None:
        self._leases.hold(engine)

    def drop_life(self, engine: int) -> None:
        self._leases.drop(engine)

    def listen(self, heard: Callable[[], None]) -> Callable[[], None]:
        return self._listener.add(heard)

    def news(self) -> object:
        return self._listener.count

    def check(self) -> Iterator[str]:
        try:
            with self._translated(), self._opened(self._reader) as connection, connection.begin():
                _let_idle(connection)
                yield from check_rows(connection)
        except StoreDamaged as error:
            yield error.message
        except (ValueError, TypeError) as error:
            text = addresses.scrubbed(str(error), self._url)
            yield f"PostgreSQL: {text.splitlines()[0]}"

    def close(self) -> None:
        self.hurry(CLOSE_SECONDS)
        self._listener.close()
        self._leases.close()
        with self._writing:
            self._drop_writer()
        self._engine.dispose()

    def _is_current(self) -> bool:
        """Whether the tables are there in this version's form; needs no right to write."""
        with self._reader.connect() as connection, connection.begin():
            if connection.exec_driver_sql("SELECT to_regclass('meta')").scalar() is None:
                return False
            return connection.exec_driver_sql(_VERSION).scalar() == str(len(MIGRATIONS))

    def _make_current(self) -> None:
        with self._engine.connect() as connection, connection.begin():
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('runyard.schema'))")
            migrate(connection)
            self._leases.create(connection)

    def _opened(self, engine: sqlalchemy.Engine) -> Connection:
        """A connection that works; one that the server has closed meanwhile is replaced."""
        until = time.monotonic() + StoreAway.patience
        while True:
            try:
                connection = engine.connect()
                if _answers(connection):
                    return connection
                connection.invalidate()
                connection.close()
            except sqlalchemy.exc.OperationalError:
                if not self._patient or self.is_hurried or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.invalidate()
            self._writer.close()
            self._writer = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the database's own errors into ours, each with what to do."""
        try:
            yield
        except (sqlalchemy.exc.DBAPIError, psycopg.Error) as error:
            cause = getattr(error, "orig", None) or error
            text = addresses.scrubbed(str(cause).strip() or type(cause).__name__, self._url)
            if isinstance(cause, errors.DiskFull):
                raise StoreFull(
                    f"the disk of {self.location} is full: {text}",
                    hint="free some space there, then say `runyard resume`; what is recorded stays",
                ) from error
            if isinstance(cause, _CONFLICTS):
                raise StoreConflict(f"{self.location} undid a transaction: {text}") from error
            if isinstance(cause, _PASSING) or (
                isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None
            ):
                raise StoreAway(
                    f"{self.location} can't be reached: {text}",
                    hint="check that the server runs and the address is right; "
                    "what is recorded stays, and `runyard resume` goes on",
                ) from error
            if isinstance(cause, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
                raise StoreForbidden(
                    f"the store {self.location} can't be used with this role: {text}",
                    hint=_RIGHTS,
                ) from error
            if isinstance(cause, errors.UndefinedTable):
                raise StoreGone(
                    f"the tables of {self.location} were removed while they were in use: "
                    f"nothing more is recorded ({text.splitlines()[0]})",
                    hint="put them back, or run the batch again",
                ) from error
            if isinstance(cause, errors.DataCorrupted | errors.IndexCorrupted):
                raise StoreDamaged(
                    f"the store {self.location} is damaged: {text}", hint="run `runyard doctor`"
                ) from error
            raise StoreError(f"the store {self.location} can't be used: {text}") from error


def _unnested(columns: list[Column[Any]], rows: Sequence[Values]) -> tuple[str, list[list[Any]]]:
    """Rows as a table of one statement, and what to bind: one array a column."""
    arrays = [list(column) for column in zip(*rows, strict=True)]
    kinds = [c.type.compile(dialect=_DIALECT) for c in columns]
    places = ", ".join(f"%b::{kind}[]" for kind in kinds)
    names = ", ".join(f'"{c.name}"' for c in columns)
    return f"unnest({places}) AS v({names})", arrays or [[] for _ in columns]


def _on(clash: Clash, table: Table) -> str:
    """What an insert does where the key is there already."""
    if clash == "put":
        keys = ", ".join(f'"{c.name}"' for c in table.primary_key)
        new = ", ".join(f'"{c.name}" = excluded."{c.name}"' for c in table.c if not c.primary_key)
        return f"ON CONFLICT ({keys}) DO UPDATE SET {new}"
    return "ON CONFLICT DO NOTHING" if clash == "keep" else ""


def _same_key(table: Table) -> str:
    return " AND ".join(f't."{c.name}" = v."{c.name}"' for c in table.primary_key)


def _let_idle(connection: Connection) -> None:
    """Let a transaction that only reads take its time between two queries: nobody waits for it."""
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")


def _answers(connection: Connection) -> bool:
    if connection.invalidated:
        return False
    try:
        driver: Any = connection.connection.driver_connection
        driver.execute("SELECT 1")
        driver.rollback()
    except (sqlalchemy.exc.DBAPIError, psycopg.OperationalError):
        return False
    return True


def _is_broken(connection: Connection) -> bool:
    if connection.invalidated:
        return True
    driver: Any = connection.connection.driver_connection
    return bool(driver is None or driver.closed)
