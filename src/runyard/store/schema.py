"""The tables of a store and their version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from runyard.errors import StoreDamaged, StoreError
from runyard.spec.codec import checksum
from runyard.spec.outcome import damaged
from runyard.store.rows import (
    AttemptRow,
    BatchRow,
    CancelRow,
    ClaimRow,
    EdgeRow,
    EngineRow,
    OutputRow,
    PieceRow,
    QueueRow,
    TaskRow,
)

R = TypeVar("R", bound=msgspec.Struct)

_SQLITE = {
    "int4": "INTEGER", "int8": "INTEGER", "float8": "REAL", "bytea": "BLOB", "text": "TEXT",
    "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
}  # fmt: skip
_POSTGRES = {
    "int4": "INTEGER", "int8": "BIGINT", "float8": "DOUBLE PRECISION", "bytea": "BYTEA",
    "text": "TEXT", "number": "BIGSERIAL PRIMARY KEY",
}  # fmt: skip


class Column(NamedTuple):
    """One column."""

    name: str
    kind: str  # PostgreSQL's name for it
    nullable: bool


class Table(Generic[R]):
    """A table in which every row ends in a checksum.

    If its key is a `number`, the database assigns the numbers and never reuses one; otherwise rows
    are stored in the order of their key.
    """

    def __init__(self, name: str, row: type[R], keys: int, columns: str) -> None:
        self.name = name
        self.row = row
        described = (column.split() for column in columns.split(","))
        self.columns = [Column(n, kind.rstrip("?"), kind.endswith("?")) for n, kind in described]
        self.columns.append(Column("checksum", "int8", nullable=False))
        self.names = [column.name for column in self.columns]
        self.keys = self.names[:keys]

    @cached_property
    def select(self) -> str:
        """The query that reads whole rows."""
        return f"SELECT {', '.join(self.names)} FROM {self.name}"

    @cached_property
    def by_key(self) -> str:
        """The condition that matches a key."""
        return " AND ".join(f"{name} = :key{at}" for at, name in enumerate(self.keys))

    @cached_property
    def update(self) -> str:
        """The statement that replaces all values of an existing row."""
        changed = (name for name in self.names if name not in self.keys)
        values = ", ".join(f"{name} = :{name}" for name in changed)
        return f"UPDATE {self.name} SET {values} WHERE {self.by_key}"

    def ddl(self, *, sqlite: bool) -> str:
        """The statement that creates the table."""
        kinds = _SQLITE if sqlite else _POSTGRES
        lines = [
            f"{c.name} {kinds[c.kind]}{'' if c.nullable else ' NOT NULL'}" for c in self.columns
        ]
        numbered = self.columns[0].kind == "number"
        if not numbered:
            lines.append(f"PRIMARY KEY ({', '.join(self.keys)})")
        end = " WITHOUT ROWID" if sqlite and not numbered else ""
        return f"CREATE TABLE {self.name} ({', '.join(lines)}){end}"

    def checksum(self, columns: Sequence[Any]) -> int:
        """The checksum of a row."""
        return checksum((self.name, *columns))

    def with_checksums(self, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Rows with their checksums appended."""
        name = self.name
        return [(*row, checksum((name, *row))) for row in rows]

    def checked(self, rows: Iterable[Sequence[Any]]) -> list[R]:
        """Rows as structs; raises if a checksum does not match."""
        name, kind, found = self.name, self.row, []
        for *columns, stored in rows:
            if checksum((name, *columns)) != stored:
                raise damaged(name, f"row {columns[:2]!r}")
            found.append(kind(*columns))
        return found


class _Outcome(msgspec.Struct):
    """A placeholder: outcomes are read as `OutcomeRow`; workers compute their checksums."""


batches = Table("batches", BatchRow, 1, """
    id number, name text, identity bytea, plan bytea?, options bytea, code bytea, seed text,
    root text, total int8, frontier int8, completed int8, failed int8, cancelled int8,
    priority int4, created float8, started float8?, finished float8?, seconds float8,
    control text?, counted float8?
""")  # fmt: skip
tasks = Table("tasks", TaskRow, 2, """
    batch int8, task int8, name text?, priority int4, content bytea, created float8
""")  # fmt: skip
queue = Table("queue", QueueRow, 2, """
    batch int8, task int8, priority int4, waiting int4, engine int8?, token text?
""")  # fmt: skip
edges = Table("edges", EdgeRow, 3, "batch int8, before int8, task int8")
claims = Table("claims", ClaimRow, 1, """
    id number, batch int8, low int8, high int8, engine int8?, token text
""")  # fmt: skip
outcomes = Table("outcomes", _Outcome, 2, """
    batch int8, task int8, status int4, attempt int4, value bytea?, error bytea?,
    started float8, seconds float8, worker int8
""")  # fmt: skip
pieces = Table("pieces", PieceRow, 3, "batch int8, task int8, number int4, data bytea")
attempts = Table("attempts", AttemptRow, 3, """
    batch int8, task int8, number int4, crash int4, error bytea, started float8, seconds float8
""")  # fmt: skip
outputs = Table("outputs", OutputRow, 3, """
    batch int8, task int8, attempt int4, stdout bytea?, stderr bytea?
""")  # fmt: skip
cancels = Table("cancels", CancelRow, 2, "batch int8, task int8")
engines = Table("engines", EngineRow, 1, """
    id number, host text, pid int8, started float8, batch int8?, backend text, workers int4,
    running int4, rate float8, stop int4
""")  # fmt: skip

TABLES: tuple[Table[Any], ...] = (
    batches, tasks, queue, edges, claims, outcomes, pieces, attempts, outputs, cancels, engines,
)  # fmt: skip
OF_BATCHES = TABLES[1:-1]
"""The tables whose rows belong to a batch."""

_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)"
_MORE = (
    "CREATE UNIQUE INDEX batches_name ON batches (name)",
    "CREATE INDEX claims_batch ON claims (batch)",
    """CREATE INDEX queue_next ON queue (batch, priority DESC, task)
       WHERE engine IS NULL AND waiting = 0""",
)

VERSION = 1
"""The version of these tables. A store of another version is refused and left untouched."""

READ_VERSION = "SELECT value FROM meta WHERE key = 'schema'"


def statements(*, sqlite: bool) -> list[str]:
    """The statements that turn an empty database into a store."""
    tables = [table.ddl(sqlite=sqlite) for table in TABLES]
    version = f"INSERT INTO meta VALUES ('schema', '{VERSION}')"
    return [_META, *tables, *_MORE, version]


def create(execute: Callable[[str], Any], *, sqlite: bool) -> None:
    """Create all tables, in the caller's transaction."""
    for statement in statements(sqlite=sqlite):
        execute(statement)


def check_version(location: str, known: str | None) -> None:
    """Raise unless the store has the schema version of this Runyard."""
    if known == str(VERSION):
        return
    if known is not None and not known.isdecimal():
        raise StoreDamaged(f"the store is damaged: its schema version is {known!r}")
    if known is not None and int(known) > VERSION:
        raise StoreError(
            f"the store {location} has schema version {known}, made by a newer Runyard; "
            f"this one reads version {VERSION}",
            hint="upgrade Runyard: pip install -U runyard",
        )
    raise StoreError(
        f"the store {location} was made by an older Runyard, and this one can't read it",
        hint="use a new yard (--yard PATH), or open this one with the version that made it",
    )
