"""PostgreSQL: the store shared by machines. Only what differs from SQLite is here.

Transactions of several engines may overlap. They are coordinated by row locks on claims and
batches (see `sql`), leases on the database's own clock (see `lease`) and notifications of changes.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

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
from runyard.store import schema
from runyard.store.arrays import Packed, packed
from runyard.store.base import Store
from runyard.store.check import check_rows
from runyard.store.lease import LEASE_SECONDS, Leases
from runyard.store.notifications import Listener, channel_of
from runyard.store.pool import Pool
from runyard.store.reading import Snapshot
from runyard.store.rows import BatchRow
from runyard.store.schema import Table
from runyard.store.sessions import DatabaseSession, Sessions
from runyard.store.sql import Transaction
from runyard.store.statements import for_postgres
from runyard.store.writing import Clash, RowValues

LOOK_SECONDS = 3.0
"""Seconds between checks for what is not notified: engines that died."""

STREAMED = 1000
"""Rows held in memory at once by a query that reads a whole table."""

CLOSE_SECONDS = 2.0
"""How many seconds an unresponsive server may delay closing the store."""

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


class PostgresSnapshot(Snapshot):
    """Reads in one session."""

    def __init__(self, driver: DatabaseSession) -> None:
        self._driver = driver

    def run(self, text: str, **values: Any) -> psycopg.Cursor[Any]:
        for name, value in values.items():
            if isinstance(value, list | tuple):
                values[name] = packed("int8", value)
        return self._driver.execute(for_postgres(text), values)

    def stream(self, text: str) -> Iterable[tuple[Any, ...]]:
        with self._driver.cursor(name="stream") as cursor:
            cursor.itersize = STREAMED
            yield from cursor.execute(text)


class PostgresTransaction(PostgresSnapshot, Transaction):
    """Reads and writes, concurrent with those of other engines."""

    def __init__(
        self, driver: DatabaseSession, alive: Callable[[int], bool], known: dict[int, bool]
    ) -> None:
        PostgresSnapshot.__init__(self, driver)
        Transaction.__init__(self, alive, known)

    def batch(self, name: str) -> BatchRow | None:
        row = super().batch(name)
        if row is None:  # no other transaction may create it before this one ends
            query = "SELECT pg_advisory_xact_lock(hashtext('runyard.batch'), hashtext(%s))"
            self._driver.execute(query, [name])
            row = super().batch(name)
        return row

    def sign_off(self, engine: int) -> None:
        super().sign_off(engine)
        self._driver.execute("DELETE FROM leases WHERE engine = %s", [engine])

    def _insert_outcomes(self, batch: int, rows: Rows) -> int:
        columns = ([batch] * len(rows), *(rows.flat[at::WIDTH] for at in range(WIDTH)))
        source, values = _source(schema.outcomes, columns)
        insert = f"INSERT INTO outcomes SELECT * FROM {source} ON CONFLICT DO NOTHING RETURNING 1"
        query = f"WITH inserted AS ({insert}) SELECT count(*) FROM inserted"
        found = self._driver.execute(query, values).fetchone()
        return int(found[0]) if found else 0

    def _insert_rows(self, table: Table[Any], rows: Sequence[RowValues], clash: Clash) -> None:
        source, values = _source(table, zip(*rows, strict=True))
        query = f"INSERT INTO {table.name} SELECT * FROM {source} {_on(clash, table)}"
        self._driver.execute(query, values)

    def _put_rows(self, table: Table[Any], rows: Sequence[RowValues]) -> None:
        source, values = _source(table, zip(*rows, strict=True))
        changed = ", ".join(f"{name} = v.{name}" for name in _values(table))
        query = f"UPDATE {table.name} t SET {changed} FROM {source} WHERE {_same_key(table)}"
        self._driver.execute(query, values)

    def _notify(self, batch: int) -> None:
        channel = channel_of(self._driver)
        self._driver.execute("SELECT pg_notify(%s, %s)", [channel, str(batch)])


class PostgresStore(Store):
    """A store in a PostgreSQL database."""

    look_seconds = LOOK_SECONDS

    def __init__(self, url: str) -> None:
        self.location = addresses.shown(url)
        self._url = url
        self._writing = threading.RLock()
        self._writer: DatabaseSession | None = None
        self._listed: dict[int, bool] = {}  # whether a batch is a list, by its number
        self._patient = False
        with self._translated():
            self._sessions = Sessions(url, LEASE_SECONDS)
        creator = self._sessions.connect
        self._readers = Pool(self._reader, works=_answers)
        self._leases = Leases(creator, self._translated, self._sessions.owner)
        self._listener = Listener(creator)
        try:
            with self._translated():
                if not self._is_current():
                    self._make_current()
        except BaseException:
            self._readers.close()
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
            if self._writer is None or not _answers(self._writer):
                self._drop_writer()
                self._writer = self._opened(self._sessions.connect)
            writer = self._writer
            if writer.info.transaction_status != TransactionStatus.IDLE:
                raise StoreError("a transaction of this thread is under way already")
            try:
                transaction = PostgresTransaction(writer, self.alive, self._listed)
                with writer.pipeline():  # statements without results are not waited for
                    yield transaction
                faults.point("commit")
                writer.commit()
                self._listed |= transaction.found
            except BaseException:
                if writer.closed:
                    self._drop_writer()
                else:
                    writer.rollback()
                raise

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        with self._translated():
            session = self._opened(self._readers.take)
            try:
                yield PostgresSnapshot(session)
            finally:
                self._readers.give_back(session)

    def alive(self, engine: int) -> bool:
        return self._leases.live(engine)

    def acquire_liveness(self, engine: int) -> None:
        self._leases.hold(engine)

    def release_liveness(self, engine: int) -> None:
        self._leases.drop(engine)

    def listen(self, heard: Callable[[], None]) -> Callable[[], None]:
        return self._listener.add(heard)

    def change_token(self) -> object:
        return self._listener.count

    def check(self) -> Iterator[str]:
        try:
            with self.snapshot() as view:
                yield from check_rows(view)
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
        self._readers.close()

    def _is_current(self) -> bool:
        """Whether the tables exist; needs read access only. Raises for another version."""
        with self._readers.lent() as session:
            if not _is_there(session):
                return False
            schema.check_version(self.location, _version(session))
            return True

    def _make_current(self) -> None:
        session = self._sessions.connect()
        try:
            session.execute("SELECT pg_advisory_xact_lock(hashtext('runyard.schema'))")
            if not _is_there(session):
                schema.create(session.execute, sqlite=False)
                self._leases.create(session)
            session.commit()
        finally:
            session.close()

    def _reader(self) -> DatabaseSession:
        """A session for reading, which may be idle between queries: it holds no locks."""
        session = self._sessions.connect()
        session.autocommit = True
        session.execute("SET idle_in_transaction_session_timeout = 0")
        session.autocommit = False
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        session.read_only = True
        return session

    def _opened(self, connect: Callable[[], DatabaseSession]) -> DatabaseSession:
        """Open a session, waiting until the server can be reached."""
        until = time.monotonic() + StoreAway.patience
        while True:
            try:
                return connect()
            except psycopg.OperationalError:
                if not self._patient or self.is_hurried or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors of the database into Runyard's, with hints."""
        try:
            yield
        except psycopg.Error as cause:
            text = addresses.scrubbed(str(cause).strip() or type(cause).__name__, self._url)
            if isinstance(cause, errors.DiskFull):
                raise StoreFull(
                    f"the disk of {self.location} is full: {text}",
                    hint="free space there, then run `runyard resume`; nothing recorded is lost",
                ) from cause
            if isinstance(cause, _CONFLICTS):
                raise StoreConflict(f"{self.location} undid a transaction: {text}") from cause
            if isinstance(cause, _PASSING) or (
                isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None
            ):
                raise StoreAway(
                    f"{self.location} can't be reached: {text}",
                    hint="check that the server runs and the address is right; "
                    "nothing recorded is lost; `runyard resume` continues from there",
                ) from cause
            if isinstance(cause, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
                raise StoreForbidden(
                    f"the store {self.location} can't be used with this role: {text}",
                    hint=_RIGHTS,
                ) from cause
            if isinstance(cause, errors.UndefinedTable):
                raise StoreGone(
                    f"the tables of {self.location} were removed while they were in use: "
                    f"nothing more is recorded ({text.splitlines()[0]})",
                    hint="restore them, or run the batch again",
                ) from cause
            if isinstance(cause, errors.DataCorrupted | errors.IndexCorrupted):
                raise StoreDamaged(
                    f"the store {self.location} is damaged: {text}", hint="run `runyard doctor`"
                ) from cause
            raise StoreError(f"the store {self.location} can't be used: {text}") from cause


def _source(table: Table[Any], columns: Iterable[Sequence[Any]]) -> tuple[str, list[Any]]:
    """Rows as a table expression, and what to bind: an array, or the value that all rows share."""
    chosen, names, places = list[str](), list[str](), list[str]()
    shared, arrays = list[Any](), list[Packed]()
    for (name, given, _), values in zip(table.columns, columns, strict=True):
        kind = given.replace("number", "int8")
        if name != "checksum" and values.count(values[0]) == len(values):
            chosen.append(f"%b::{kind} AS {name}")
            shared.append(values[0])
        else:
            chosen.append(name)
            names.append(name)
            places.append(f"%b::{kind}[]")
            arrays.append(packed(kind, values))
    unnested = f"unnest({', '.join(places)}) AS u({', '.join(names)})"
    return f"(SELECT {', '.join(chosen)} FROM {unnested}) AS v", [*shared, *arrays]


def _values(table: Table[Any]) -> list[str]:
    """The columns that are not part of the key."""
    return [name for name in table.names if name not in table.keys]


def _on(clash: Clash, table: Table[Any]) -> str:
    """The clause for rows whose key exists already."""
    if clash == "put":
        new = ", ".join(f"{name} = excluded.{name}" for name in _values(table))
        return f"ON CONFLICT ({', '.join(table.keys)}) DO UPDATE SET {new}"
    return "ON CONFLICT DO NOTHING" if clash == "keep" else ""


def _same_key(table: Table[Any]) -> str:
    return " AND ".join(f"t.{name} = v.{name}" for name in table.keys)


def _is_there(session: DatabaseSession) -> bool:
    found = session.execute("SELECT to_regclass('meta') IS NOT NULL").fetchone()
    return bool(found and found[0])


def _version(session: DatabaseSession) -> str | None:
    found = session.execute(schema.READ_VERSION).fetchone()
    return None if found is None else str(found[0])


def _answers(session: DatabaseSession) -> bool:
    """Whether an idle session still works; a server that has ended it has sent a message."""
    if session.closed:
        return False
    if not select.select([session.pgconn.socket], [], [], 0)[0]:
        return True
    try:
        session.execute("SELECT 1")
        session.rollback()
    except psycopg.OperationalError:
        return False
    return True
