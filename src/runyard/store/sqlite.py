"""SQLite: the default store. One file, WAL, one writer at a time, several processes welcome."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Engine,
    NullPool,
    Pool,
    QueuePool,
    Table,
    event,
    func,
    select,
)

from runyard import faults
from runyard.errors import RunyardError, StoreDamaged, StoreError, StoreForbidden, StoreFull
from runyard.spec.outcome import WIDTH, OutcomeRow, Rows
from runyard.store import readonly
from runyard.store.base import Store
from runyard.store.check import check_rows
from runyard.store.compact import Pages, vacuum
from runyard.store.guard import BUSY_SECONDS, Pins, WriteLock
from runyard.store.life import LifeLocks
from runyard.store.reading import SqlSnapshot
from runyard.store.schema import migrate
from runyard.store.sql import SqlTransaction
from runyard.store.writing import Clash, Values

GROUP = 50
"""Rows in one INSERT: the interpreter lock changes hands once for all of them."""

_NO_DAMAGE = {
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH,
}  # fmt: skip
"""What keeps SQLite from reading a store that may be whole."""

_STATUS, _ERROR = OutcomeRow._fields.index("status"), OutcomeRow._fields.index("error")
_VERBS = {"error": "INSERT", "keep": "INSERT OR IGNORE", "put": "INSERT OR REPLACE"}
_INSERT = (
    "INSERT OR IGNORE INTO outcomes "
    "(batch, task, status, attempt, value, error, started, seconds, worker, checksum) VALUES "
)


class SqliteTransaction(SqlTransaction):
    """Reads and writes while no other process writes."""

    has_news = False  # for other engines

    def _notify(self, batch: int) -> None:  # noqa: ARG002
        self.has_news = True

    def _insert_outcomes(self, batch: int, status: int, rows: Rows) -> int:
        # What all of them share stands in the statement: binding costs.
        flat, width = rows.flat, WIDTH
        one = f"({int(batch)}, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        if flat[_ERROR::WIDTH].count(None) == len(rows):
            one = f"({int(batch)}, ?, {int(status)}, ?, ?, NULL, ?, ?, ?, ?)"
            flat, width = flat.copy(), WIDTH - 2
            del flat[_ERROR::WIDTH], flat[_STATUS :: WIDTH - 1]
        return self._insert_flat(_INSERT, one, flat, width)

    def _put_sealed(self, table: Table, rows: Sequence[Values]) -> None:
        self._insert_sealed(table, rows, "put")

    def _insert_sealed(self, table: Table, rows: Sequence[Values], clash: Clash) -> None:
        names = [f'"{c.name}"' for c in table.c]
        head = f"{_VERBS[clash]} INTO {table.name} ({', '.join(names)}) VALUES "
        one = f"({', '.join('?' * len(names))})"
        self._insert_flat(head, one, list(chain.from_iterable(rows)), len(names))

    def _insert_flat(self, head: str, one: str, flat: list[Any], width: int) -> int:
        """Insert values of so many a row, many rows in a statement; how many rows went in."""
        driver: Any = self._connection.connection.driver_connection
        step, count = GROUP * width, 0
        whole = len(flat) - len(flat) % step
        for size, groups in (
            (GROUP, [flat[at : at + step] for at in range(0, whole, step)]),
            (1, [flat[at : at + width] for at in range(whole, len(flat), width)]),
        ):
            if groups:
                statement = head + ", ".join([one] * size)
                count += driver.executemany(statement, groups).rowcount
        return count

    def _among(self, column: Column[int], numbers: Sequence[int]) -> ColumnElement[bool]:
        # One parameter however many there are: so the statement is compiled once.
        listed = func.json_each(json.dumps(list(numbers))).table_valued("value")
        return column.in_(select(listed.c.value))


class SqliteStore(Store):
    """A store in one SQLite file."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self.location = str(path)
        self._path = path = path.absolute()  # connections are opened later, too
        self._durable = durable
        self._writing = threading.RLock()
        self._writer: Connection | None = None
        with translated(self.location):
            path.parent.mkdir(parents=True, exist_ok=True)
            _check_regular(path)
            self._only_reads = readonly.may_only_read(path)
        self._life = LifeLocks(path.parent)
        self._lock = WriteLock(path.with_name("yard.lock"))
        dialect = _dialect()
        # Not a method: SQLAlchemy keeps the creator of a connection in use for ever, and so the
        # store itself with all its descriptors.
        creator: Any
        pool: Pool
        if self._only_reads:
            creator = partial(readonly.connect, path, BUSY_SECONDS)
            pool = NullPool(creator, dialect=dialect)
        else:
            creator = partial(_connect, path, durable)
            pool = QueuePool(creator, pool_size=4, max_overflow=60, dialect=dialect)
        self._engine = Engine(pool, dialect, sqlalchemy.make_url("sqlite://"))
        self._engine.update_execution_options(compiled_cache=_compiled)
        event.listen(self._engine, "begin", _begin)
        self._pinning = threading.Lock()
        self._pins: Pins | None = None
        self._let_go: Callable[[], object] = lambda: None
        self._make_current()

    def _make_current(self) -> None:
        if self._only_reads:
            with translated(self.location), self._begun("BEGIN") as connection:
                readonly.check_version(connection, self.location)
            return
        with (
            translated(self.location),
            self._lock.held(),
            self._begun("BEGIN IMMEDIATE") as connection,
        ):
            migrate(connection)

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        if self._only_reads:
            raise readonly.refused(self.location)
        with self._writing, translated(self.location), self._lock.held():
            if self._writer is None:
                self._writer = self._open("BEGIN IMMEDIATE")
            with self._writer.begin():
                self.check_place()
                transaction = SqliteTransaction(self._writer, self.alive)
                yield transaction
                faults.point("commit")
            self.check_place()
            if transaction.has_news:
                self._lock.ring()

    @contextmanager
    def snapshot(self) -> Iterator[SqlSnapshot]:
        with translated(self.location), self._begun("BEGIN") as connection:
            self._check_files()
            yield SqlSnapshot(connection)

    def check_place(self) -> None:
        self._check_files()
        self._life.check()

    def alive(self, engine: int) -> bool:
        return self._life.held(engine)

    def hold_life(self, engine: int) -> None:
        self._life.hold(engine)

    def drop_life(self, engine: int) -> None:
        self._life.drop(engine)

    def news(self) -> object:
        return self._lock.rung()

    def spare(self) -> int:
        if self._only_reads:
            return 0
        with translated(self.location), closing(_connect(self._path, self._durable)) as connection:
            return Pages.of(connection).spare

    def compact(self) -> int:
        with (
            translated(self.location),
            self._lock.held(),
            closing(_connect(self._path, self._durable)) as connection,
        ):
            return vacuum(connection, self._path)

    def check(self) -> Iterator[str]:
        try:
            with self._begun("BEGIN") as connection:
                for (line,) in connection.exec_driver_sql("PRAGMA integrity_check(20)"):
                    if line != "ok":
                        yield f"SQLite: {line}"
                yield from check_rows(connection)
        except StoreDamaged as error:
            yield error.message
        except (sqlalchemy.exc.DatabaseError, ValueError, TypeError) as error:
            if _code_of(error) in _NO_DAMAGE:
                with translated(self.location):
                    raise
            yield f"SQLite: {str(error).splitlines()[0]}"

    def close(self) -> None:
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            self._let_go()
            self._pins = None

    def _check_files(self) -> None:
        if self._pins is not None:
            self._pins.check()

    @contextmanager
    def _begun(self, begin: str) -> Iterator[Connection]:
        before = readonly.state(self._path) if self._only_reads else None
        with self._open(begin) as connection, connection.begin():
            yield connection
        readonly.check_state(self._path, before)

    def _open(self, begin: str) -> Connection:
        connection = self._engine.connect().execution_options(runyard_begin=begin)
        if self._only_reads:
            return connection
        with self._pinning:
            if self._pins is None:  # the first time, or again after `close`
                self._pins = Pins.take(self._path.resolve())
                finalizer = weakref.finalize(self, _let_go, self._engine, self._pins, self._lock)
                finalizer.atexit = False
                self._let_go = finalizer
        return connection


def _let_go(engine: Engine, pins: Pins, lock: WriteLock) -> None:
    """In this order, so that SQLite never works without the locks it believes to hold."""
    pins.loosen()
    engine.dispose()
    pins.close()
    lock.close()


def _connect(path: Path, durable: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    _use_wal(connection)
    connection.execute("PRAGMA schema_version").fetchone()  # opens the log, if nothing else did
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    connection.execute("PRAGMA cache_size=-16000")
    return connection


@cache
def _dialect() -> Dialect:
    """One for all stores of the process, so that each statement is compiled once."""
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect():  # which is when SQLAlchemy looks at what the database can do
        return engine.dialect


_compiled: dict[Any, Any] = {}


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; while others open the same new file, SQLite refuses without waiting."""
    until = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)
        if time.monotonic() > until:
            raise sqlite3.OperationalError("the file system can't hold a database in WAL mode")


def _check_regular(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise StoreError(f"the store {path} is no regular file", hint="move it away")


def _code_of(error: Exception) -> int:
    code: int = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
    return code & 0xFF  # the rest says more, which does not matter here


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options()["runyard_begin"])


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Turn the database's own errors into ours, each with what to do."""
    try:
        yield
    except (sqlalchemy.exc.DatabaseError, sqlite3.DatabaseError) as error:
        text = str(getattr(error, "orig", None) or error)
        if "full" in text or "disk I/O error" in text:
            raise StoreFull(
                f"the disk has no room for {location}: {text}",
                hint="free some space, then say `runyard resume`; what is recorded stays",
            ) from error
        if "malformed" in text or "not a database" in text or "corrupt" in text:
            raise StoreDamaged(
                f"the store {location} is damaged: {text}", hint="run `runyard doctor`"
            ) from error
        raise StoreError(f"the store {location} can't be used: {text}") from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(
            f"the store {location} is damaged: {error}", hint="run `runyard doctor`"
        ) from error
    except OSError as error:
        if isinstance(error, RunyardError):
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StoreForbidden(
                f"the store {location} can't be used: {reason}", hint="ask its owner for the right"
            ) from error
        raise StoreError(f"the store {location} can't be used: {reason}") from error
