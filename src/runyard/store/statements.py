"""Statements that were built once, and the checksum that each row carries.

Hot ones are plain text as PostgreSQL understands it, with `:name` for a value:

    SELECT task FROM queue WHERE batch = :batch AND task = ANY(:tasks) FOR UPDATE

SQLite gets the same in its own words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import (
    Connection,
    Delete,
    Dialect,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    select,
    update,
)

from runyard.spec.codec import checksum
from runyard.spec.outcome import damaged
from runyard.store.arrays import packed

R = TypeVar("R", bound=msgspec.Struct)


class Statements(NamedTuple):
    """What is done most often with a table: one row, by its key."""

    get: Select[Any]
    lock: Select[Any]  # get, where nobody else may change it before this transaction ends
    put: Update
    drop: Delete


@cache
def statements(table: Table) -> Statements:
    """A table's statements, built once."""
    where = [c == bindparam(f"key_{c.name}") for c in table.primary_key]
    values: dict[str, Any] = {c.name: bindparam(c.name) for c in table.c}
    return Statements(
        select(table).where(*where),
        select(table).where(*where).with_for_update(),
        update(table).where(*where).values(values),
        delete(table).where(*where),
    )


@cache
def _compiled(statement: Any, dialect: Dialect) -> tuple[str, tuple[str, ...] | None]:
    found = statement.compile(dialect=dialect)
    return str(found), tuple(found.positiontup) if found.positional else None


def run(connection: Connection, statement: Any, **values: Any) -> Any:
    """Execute a statement that was built once, past SQLAlchemy; the driver's own cursor."""
    text, order = _compiled(statement, connection.dialect)
    driver: Any = connection.connection.driver_connection
    return driver.execute(text, values if order is None else [values[name] for name in order])


def run_text(connection: Connection, text: str, values: dict[str, Any]) -> Any:
    """Execute a statement that is plain text; the driver's own cursor."""
    driver: Any = connection.connection.driver_connection
    is_sqlite = connection.dialect.name == "sqlite"
    for name, value in values.items():
        if isinstance(value, list | tuple):
            values[name] = json.dumps(value) if is_sqlite else packed("int8", value)
    return driver.execute((_for_sqlite if is_sqlite else _for_postgres)(text), values)


@cache
def _for_sqlite(text: str) -> str:
    text = re.sub(r"= ANY\(:(\w+)\)", r"IN (SELECT value FROM json_each(:\1))", text)
    return re.sub(r"FOR UPDATE( OF \w+)?( SKIP LOCKED)?", "", text)


@cache
def _for_postgres(text: str) -> str:
    text = re.sub(r"ANY\(:(\w+)\)", r"ANY(%(\1)b::int8[])", text)
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", text)


def keyed(table: Table, key: tuple[Any, ...]) -> dict[str, Any]:
    return {f"key_{c.name}": v for c, v in zip(table.primary_key, key, strict=True)}


def row_checksum(table: Table, columns: tuple[Any, ...]) -> int:
    return checksum((str(table.name), *columns))


def with_checksum(table: Table, rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Whole rows, each with its row_checksum at the end."""
    name = str(table.name)
    return [(*row, checksum((name, *row))) for row in rows]


def checked(kind: type[R], table: Table, row: Sequence[Any]) -> R:
    return checked_all(kind, table, [row])[0]


def checked_all(kind: type[R], table: Table, rows: Iterable[Sequence[Any]]) -> list[R]:
    """What whole rows hold, where their seals say that it is what was written."""
    name, found = str(table.name), []
    for *columns, stored in rows:
        if checksum((name, *columns)) != stored:
            raise damaged(name, f"row {columns[:2]!r}")
        found.append(kind(*columns))
    return found
