"""Rows written, single and many; names what each database does in its own way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from runyard.spec.outcome import Rows
from runyard.store import schema
from runyard.store.reading import SqlSnapshot
from runyard.store.rows import BatchRow
from runyard.store.schema import Table

R = TypeVar("R", bound=msgspec.Struct)
Values = tuple[Any, ...]
Clash = Literal["error", "keep", "put"]
"""What becomes of a row whose key is there already: an error, the old row or the new one."""


class SqlWriter(SqlSnapshot):
    """Rows written over one connection, each with its checksum.

    Where transactions of several engines overlap, a claim's rows and then the batch's are locked:
    what is read of them here will still be so when this transaction commits.
    """

    @abstractmethod
    def _insert_outcomes(self, batch: int, status: int, rows: Rows) -> int:
        """Insert rows of one status where there is none yet; how many went in."""

    @abstractmethod
    def _insert_rows(self, table: Table[Any], rows: Sequence[Values], clash: Clash) -> None:
        """Insert whole rows, no two with the same key."""

    @abstractmethod
    def _put_rows(self, table: Table[Any], rows: Sequence[Values]) -> None:
        """Write whole rows that are there already, by their keys."""

    def _notify(self, batch: int) -> None:
        """Tell those who wait for changes of this batch, once this is committed."""

    def batch_by_id(self, batch: int) -> BatchRow | None:
        return self._get(schema.batches, batch, lock="FOR UPDATE")

    def _insert(self, table: Table[R], columns: dict[str, Any]) -> R:
        """Insert a row whose number the database gives, then its checksum with that number."""
        names = ", ".join([*columns, "checksum"])
        places = ", ".join(f":{name}" for name in columns)
        query = f"INSERT INTO {table.name} ({names}) VALUES ({places}, 0) RETURNING id"
        (number,) = self.run(query, **columns).fetchone()
        row = table.row(**{**columns, "id": number})
        self._put(table, row)
        return row

    def _put(self, table: Table[Any], row: msgspec.Struct) -> None:
        """Write a row that is there already, by its key."""
        values = msgspec.structs.asdict(row)
        mark = table.checksum(tuple(values.values()))
        keys = {f"key{at}": values.pop(name) for at, name in enumerate(table.keys)}
        self.run(table.update, **keys, **values, checksum=mark)

    def _put_many(self, table: Table[Any], rows: Sequence[msgspec.Struct]) -> None:
        if rows:
            self._put_rows(table, table.with_checksums(map(msgspec.structs.astuple, rows)))

    def _drop(self, table: Table[Any], *key: Any) -> None:
        values = {f"key{at}": value for at, value in enumerate(key)}
        self.run(f"DELETE FROM {table.name} WHERE {table.by_key}", **values)

    def _insert_many(
        self, table: Table[Any], rows: Iterable[Values], *, clash: Clash = "error"
    ) -> None:
        """Insert rows, no two with the same key."""
        whole = table.with_checksums(rows)
        if whole:
            self._insert_rows(table, whole, clash)
