"""Writing rows; declares what each database implements in its own way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from runyard.spec.outcome import Rows
from runyard.store import schema
from runyard.store.reading import Snapshot
from runyard.store.rows import BatchRow
from runyard.store.schema import Table

R = TypeVar("R", bound=msgspec.Struct)
RowValues = tuple[Any, ...]
Clash = Literal["error", "keep", "put"]
"""If a row's key exists already: raise an error, keep the old row or put the new one."""


class SqlWriter(Snapshot):
    """Writes rows over one connection, each with its checksum.

    If transactions of several engines may overlap, claim rows are locked first and then the batch's
    row: what is read from them here is still true when this transaction commits.
    """

    @abstractmethod
    def _insert_outcomes(self, batch: int, rows: Rows) -> int:
        """Insert rows for tasks without an outcome; return how many were new."""

    @abstractmethod
    def _insert_rows(self, table: Table[Any], rows: Sequence[RowValues], clash: Clash) -> None:
        """Insert complete rows, no two with the same key."""

    @abstractmethod
    def _put_rows(self, table: Table[Any], rows: Sequence[RowValues]) -> None:
        """Replace existing rows by their keys."""

    def _notify(self, batch: int) -> None:
        """Notify others of a change of this batch when this transaction is committed."""

    def __init__(self) -> None:
        self._locked: dict[int, BatchRow] = {}  # batches that no other transaction can change now

    def batch_by_id(self, batch: int) -> BatchRow | None:
        if batch not in self._locked:
            found = self._get(schema.batches, batch, lock="FOR UPDATE")
            if found is None:
                return None
            self._locked[batch] = found
        return self._locked[batch]

    def _put_batch(self, row: BatchRow) -> BatchRow:
        """Replace the row of a batch."""
        self._put(schema.batches, row)
        self._locked[row.id] = row
        return row

    def _insert(self, table: Table[R], columns: dict[str, Any]) -> R:
        """Insert a row numbered by the database, then set its checksum, which covers the number."""
        names = ", ".join([*columns, "checksum"])
        places = ", ".join(f":{name}" for name in columns)
        query = f"INSERT INTO {table.name} ({names}) VALUES ({places}, 0) RETURNING id"
        (number,) = self.run(query, **columns).fetchone()
        row = table.row(**{**columns, "id": number})
        self._put(table, row)
        return row

    def _put(self, table: Table[Any], row: msgspec.Struct) -> None:
        """Replace an existing row by its key."""
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
        self, table: Table[Any], rows: Iterable[RowValues], *, clash: Clash = "error"
    ) -> None:
        """Insert rows with their checksums, no two with the same key."""
        whole = table.with_checksums(rows)
        if whole:
            self._insert_rows(table, whole, clash)
