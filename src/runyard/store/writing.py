"""Rows, single and many, in SQLAlchemy Core; names what each database does in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from sqlalchemy import Column, ColumnElement, Table, insert

from runyard.spec.outcome import Rows
from runyard.store import schema
from runyard.store.reading import SqlSnapshot
from runyard.store.rows import (
    BatchRow,
)
from runyard.store.statements import (
    checked,
    keyed,
    row_checksum,
    run,
    statements,
    with_checksum,
)

R = TypeVar("R", bound=msgspec.Struct)
Values = tuple[Any, ...]
Clash = Literal["error", "keep", "put"]
"""What becomes of a row whose key is there already: an error, the old row or the new one."""

MANY = 2000
"""Numbers in one statement."""


class SqlWriter(SqlSnapshot, ABC):
    """Rows written over one connection, each with its row_checksum.

    Where transactions of several engines overlap, a claim's rows and then the batch's are locked:
    whoever reads one of them here reads what will still be so when this transaction commits.
    """

    @abstractmethod
    def _insert_outcomes(self, batch: int, status: int, rows: Rows) -> int:
        """Insert rows of one status where there is none yet; how many went in."""

    @abstractmethod
    def _insert_rows(self, table: Table, rows: Sequence[Values], clash: Clash) -> None:
        """Insert whole rows, no two with the same key."""

    @abstractmethod
    def _put_rows(self, table: Table, rows: Sequence[Values]) -> None:
        """Write whole rows that are there already, by their keys."""

    @abstractmethod
    def _among(self, column: Column[int], numbers: Sequence[int]) -> ColumnElement[bool]:
        """Whether the column is one of these."""

    def _notify(self, batch: int) -> None:
        """Tell whoever waits for news of this batch, once this is committed."""

    def batch_by_id(self, batch: int) -> BatchRow | None:
        return self._get_locked(BatchRow, schema.batches, batch)

    def _insert(self, kind: type[R], table: Table, columns: dict[str, Any]) -> R:
        """Insert a row whose number the database gives, then row_checksum it with that number."""
        given = {**columns, "checksum": 0}
        key = self._connection.execute(insert(table).values(given)).inserted_primary_key
        assert key is not None
        row = kind(**{**columns, "id": key[0]})
        self._put(table, row)
        return row

    def _get_locked(self, kind: type[R], table: Table, *key: Any) -> R | None:
        """The row with this key, as it stays until this transaction ends."""
        row = run(self._connection, statements(table).lock, **keyed(table, key)).fetchone()
        return None if row is None else checked(kind, table, row)

    def _put(self, table: Table, row: msgspec.Struct) -> None:
        """Write a row that is there already, by its key."""
        values = msgspec.structs.asdict(row)
        keys = {f"key_{c.name}": values[c.name] for c in table.primary_key}
        mark = row_checksum(table, tuple(values.values()))
        run(self._connection, statements(table).put, **keys, **values, checksum=mark)

    def _put_many(self, table: Table, rows: Sequence[msgspec.Struct]) -> None:
        if rows:
            self._put_rows(table, with_checksum(table, map(msgspec.structs.astuple, rows)))

    def _drop(self, table: Table, *key: Any) -> None:
        run(self._connection, statements(table).drop, **keyed(table, key))

    def _insert_many(
        self, table: Table, rows: Iterable[tuple[Any, ...]], *, clash: Clash = "error"
    ) -> None:
        """Insert rows, no two with the same key."""
        whole = with_checksum(table, rows)
        if whole:
            self._insert_rows(table, whole, clash)


def batched(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[at : at + MANY] for at in range(0, len(numbers), MANY))
