"""SQLite: the default store. One file in WAL mode, many processes, one writer at a time."""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from runyard import faults
from runyard.errors import StoreDamaged, StoreError, StoreFull
from runyard.modes import make_folder
from runyard.spec.outcome import WIDTH, Rows
from runyard.store import readonly, schema
from runyard.store.base import Store
from runyard.store.blank import put_blank
from runyard.store.check import check_rows
from runyard.store.compact import Pages, vacuum
from runyard.store.connecting import connect, translated
from runyard.store.guard import BUSY_SECONDS, Pins, WriteLock
from runyard.store.liveness import LivenessLocks
from runyard.store.pool import KEEP, Pool
from runyard.store.reading import Snapshot
from runyard.store.rows import BatchRow
from runyard.store.schema import Table
from runyard.store.sql import Transaction
from runyard.store.statements import for_sqlite
from runyard.store.writing import Clash, RowValues

GROUP = 50
"""Rows in one INSERT, so that the GIL is released and taken once for all of them."""

SHORT = 64
"""The longest value, in bytes, that is written into a statement."""

_NO_DAMAGE = {
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH,
}  # fmt: skip
"""Errors that prevent reading a store and don't mean that it is damaged."""

_BATCHES_TWICE = """
    SELECT (SELECT count(*) FROM batches NOT INDEXED),
        (SELECT count(*) FROM batches INDEXED BY batches_name)
"""
_VERBS = {"error": "INSERT", "keep": "INSERT OR IGNORE", "put": "INSERT OR REPLACE"}


class SqliteSnapshot(Snapshot):
    """Reads over one connection."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def run(self, text: str, **values: Any) -> sqlite3.Cursor:
        for name, value in values.items():
            if isinstance(value, list | tuple):
                values[name] = json.dumps(value)
        return self._driver.execute(for_sqlite(text), values)

    def stream(self, text: str) -> Iterable[tuple[Any, ...]]:
        return self._driver.execute(text)

    def batch(self, name: str) -> BatchRow | None:
        found = super().batch(name)
        if found is None:
            self._check_batches()
        return found

    def batches(self) -> list[BatchRow]:
        self._check_batches()
        return super().batches()

    def _check_batches(self) -> None:
        """Raise if the table of batches or its index has lost a row, which no checksum shows."""
        rows, names = self.run(_BATCHES_TWICE).fetchone()
        if rows != names:
            raise StoreDamaged(
                f"the store is damaged: it has {rows} batches, and the names of {names}",
                hint="run `runyard doctor`",
            )


class SqliteTransaction(SqliteSnapshot, Transaction):
    """Reads and writes while no other process writes."""

    has_changes = False  # that other engines must be notified of

    def __init__(
        self, driver: sqlite3.Connection, alive: Callable[[int], bool], known: dict[int, bool]
    ) -> None:
        SqliteSnapshot.__init__(self, driver)
        Transaction.__init__(self, alive, known)

    def _notify(self, batch: int) -> None:  # noqa: ARG002
        self.has_changes = True

    def _insert_outcomes(self, batch: int, rows: Rows) -> int:
        columns = [rows.flat[at::WIDTH] for at in range(WIDTH)]
        return self._insert_columns(schema.outcomes, [[batch] * len(rows), *columns], "keep")

    def _put_rows(self, table: Table[Any], rows: Sequence[RowValues]) -> None:
        self._insert_rows(table, rows, "put")

    def _insert_rows(self, table: Table[Any], rows: Sequence[RowValues], clash: Clash) -> None:
        self._insert_columns(table, list(zip(*rows, strict=True)), clash)

    def _insert_columns(self, table: Table[Any], columns: list[Any], clash: Clash) -> int:
        """Insert rows, given by their columns, in groups; return how many were inserted."""
        head = f"{_VERBS[clash]} INTO {table.name} ({', '.join(table.names)}) VALUES "
        places = [_place(column) for column in columns]
        one, width = f"({', '.join(places)})", places.count("?")
        bound = (column for column, place in zip(columns, places, strict=True) if place == "?")
        flat = list(chain.from_iterable(zip(*bound, strict=True)))
        step, count = GROUP * width, 0
        whole = len(flat) - len(flat) % step
        for size, groups in (
            (GROUP, [flat[at : at + step] for at in range(0, whole, step)]),
            (1, [flat[at : at + width] for at in range(whole, len(flat), width)]),
        ):
            if groups:
                statement = head + ", ".join([one] * size)
                count += self._driver.executemany(statement, groups).rowcount
        return count


class _Access(NamedTuple):
    """How a store's file is opened."""

    pool: Pool[sqlite3.Connection]
    only_reads: bool


class SqliteStore(Store):
    """A store in one SQLite file."""

    synchronous = "NORMAL"
    """SQLite's `synchronous` setting, unless `durable`."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self.location = str(path)
        self._path = path = path.absolute()  # connections are also opened later
        self._durable = durable
        self._writing = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._listed: dict[int, bool] = {}  # whether a batch is a list, by its number
        with translated(self.location):
            make_folder(path.parent)
            _check_regular(path)
            may_only_read = readonly.may_only_read(path)
        self._life = LivenessLocks(path.parent)
        self._lock = WriteLock(path.with_name("yard.lock"))
        self._pinning = threading.Lock()
        self._pins: Pins | None = None
        self._let_go: Callable[[], object] = lambda: None
        self._is_full = False  # the disk was, when the store was opened
        self._access = self._reader() if may_only_read else self._writer_and_reader()
        try:
            with translated(self.location):
                self._prepare()
        except StoreFull as error:
            self._access, self._is_full = self._reader(), True
            try:
                with translated(self.location):
                    self._prepare()
            except StoreError:
                raise error from None

    # Not methods that connect: those would keep the store itself and its descriptors alive.

    def _reader(self) -> _Access:
        opened = partial(readonly.connect, self._path, BUSY_SECONDS)
        return _Access(Pool(opened, works=lambda _: True, keep=0), only_reads=True)

    def _writer_and_reader(self) -> _Access:
        synchronous = "FULL" if self._durable else self.synchronous
        opened = partial(connect, self._path, synchronous)
        return _Access(Pool(opened, works=lambda _: True, keep=KEEP), only_reads=False)

    def _begin_to_write(self) -> None:
        """Raise unless this store may be written to; there may be room on the disk by now."""
        before = self._access
        if not before.only_reads:
            return
        if not self._is_full:
            raise readonly.refused(self.location)
        self._access = self._writer_and_reader()
        try:
            self._prepare()
        except BaseException:
            self._access = before
            raise

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        with self._writing, translated(self.location):
            self._begin_to_write()
        with self._writing, translated(self.location), self._lock.held():
            if self._writer is None:
                self._writer = self._open(self._access)
            with _begun(self._writer, "BEGIN IMMEDIATE"):
                self._check_content()
                transaction = SqliteTransaction(self._writer, self.alive, self._listed)
                yield transaction
                faults.point("commit")
            self._check_content()
            self._listed |= transaction.found
            if transaction.has_changes:
                self._lock.touch()

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        with translated(self.location), self._lent() as connection:
            self._check_files()
            yield SqliteSnapshot(connection)

    def check_place(self) -> None:
        self._check_files()
        self._life.check()

    def alive(self, engine: int) -> bool:
        return self._life.held(engine)

    def acquire_liveness(self, engine: int) -> None:
        self._life.hold(engine)

    def release_liveness(self, engine: int) -> None:
        self._life.drop(engine)

    def change_token(self) -> object:
        return self._lock.last_change()

    def spare(self) -> int:
        if self._access.only_reads:
            return 0
        with (
            translated(self.location),
            closing(connect(self._path, self.synchronous)) as connection,
        ):
            return Pages.of(connection).spare

    def compact(self) -> int:
        with (
            translated(self.location),
            self._lock.held(),
            closing(connect(self._path, self.synchronous)) as connection,
        ):
            return vacuum(connection, self._path)

    def check(self) -> Iterator[str]:
        try:
            with self._lent() as connection:
                for (line,) in connection.execute("PRAGMA integrity_check(20)"):
                    if line != "ok":
                        yield f"SQLite: {line}"
                yield from check_rows(SqliteSnapshot(connection))
        except StoreDamaged as error:
            yield error.message
        except (sqlite3.Error, ValueError, TypeError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_DAMAGE:
                with translated(self.location):
                    raise
            yield f"SQLite: {str(error).splitlines()[0]}"

    def close(self) -> None:
        with self._writing:
            if self._writer is not None:
                self._access.pool.give_back(self._writer)
                self._writer = None
            self._let_go()
            self._pins = None

    def _check_files(self) -> None:
        if self._pins is not None:
            self._pins.check()

    def _check_content(self) -> None:
        """As `check_place`, and whether the file is as it was left; only while writing."""
        self.check_place()
        if self._pins is not None:
            self._pins.check_content()

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """A connection that reads one consistent state."""
        access = self._access
        before = readonly.state(self._path) if access.only_reads else None
        connection = self._open(access)
        try:
            with _begun(connection, "BEGIN"):
                yield connection
        finally:
            access.pool.give_back(connection)
        readonly.check_state(self._path, before)

    def _open(self, access: _Access) -> sqlite3.Connection:
        connection = access.pool.take()
        if access.only_reads:
            return connection
        with self._pinning:
            if self._pins is None:  # on first use, and again after `close`
                self._pins = Pins.take(self._path.resolve())
                finalizer = weakref.finalize(self, _let_go, access.pool, self._pins, self._lock)
                finalizer.atexit = False
                self._let_go = finalizer
        return connection

    def _prepare(self) -> None:
        """Create the tables of a new store; refuse one of another version, leaving it untouched."""
        access = self._access
        if access.only_reads:
            with self._lent() as connection:
                schema.check_version(self.location, _version(connection))
            return
        if put_blank(self._path, durable=self._durable):
            connection = self._open(access)
            assert self._pins is not None
            if self.synchronous != "OFF":
                self._pins.flush()
        else:
            _check_at_rest(self._path, self.location)
            connection = self._open(access)
        try:
            if _is_new(connection):
                with self._lock.held(), _begun(connection, "BEGIN IMMEDIATE"):
                    if _is_new(connection):  # unless another process was faster
                        schema.create(connection.execute, sqlite=True)
            schema.check_version(self.location, _version(connection))
        except BaseException:
            connection.close()  # with the locks held, so that SQLite keeps its WAL
            self._let_go()
            raise
        access.pool.give_back(connection)


def _place(column: Sequence[Any]) -> str:
    """A placeholder, or the literal of a value that many rows share: binding it costs time."""
    value = column[0]
    if len(column) < GROUP or column.count(value) < len(column):
        return "?"
    if value is None:
        return "NULL"
    if isinstance(value, bytes) and len(value) <= SHORT:
        return f"X'{value.hex()}'"
    return str(value) if isinstance(value, int) else "?"


@contextmanager
def _begun(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _is_new(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _version(connection: sqlite3.Connection) -> str | None:
    """The schema version; None if the store has none."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        return None
    found = connection.execute(schema.READ_VERSION).fetchone()
    return None if found is None else str(found[0])


def _check_at_rest(path: Path, location: str) -> None:
    """Refuse an unused store of another version without touching any file."""
    log = path.with_name(path.name + "-wal")
    if not path.exists() or not path.stat().st_size or (log.exists() and log.stat().st_size):
        return
    with suppress(sqlite3.Error):  # reported when the store is opened
        uri = f"{path.as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            if not _is_new(connection):
                schema.check_version(location, _version(connection))


def _let_go(pool: Pool[sqlite3.Connection], pins: Pins, lock: WriteLock) -> None:
    """Close in this order, so that SQLite never runs without the locks it believes it holds."""
    pins.loosen()
    pool.close()
    pins.close()
    lock.close()


def _check_regular(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise StoreError(f"the store {path} is not a regular file", hint="move it away")
