"""An outcome as it is made in a worker and stored: a row with its checksum."""

from __future__ import annotations

from typing import Any, NamedTuple

from runyard.errors import StoreDamaged
from runyard.spec.codec import checksum, decode, encode
from runyard.spec.status import FAILED


class OutcomeRow(NamedTuple):
    """A task's end. Made in the worker, checksum and all, and stored as it is."""

    task: int
    status: int
    attempt: int  # how many errors of its own came before
    value: bytes | None  # in the batch's codec
    error: bytes | None  # see `ErrorInfo`
    started: float  # wall time
    seconds: float
    worker: int  # engine number × 65536 + lane
    checksum: int

    @classmethod
    def sealed(cls, batch: int, *columns: Any) -> OutcomeRow:
        """A row with its checksum over the batch and every column."""
        return cls._make((*columns, checksum(columns, batch)))

    def check(self, batch: int) -> OutcomeRow:
        """The row itself, if nothing in it has changed since it was written."""
        if checksum(self[:-1], batch) != self.checksum:
            raise damaged("outcomes", f"task {self.task}")
        return self


class ErrorInfo(NamedTuple):
    """Why a task failed."""

    kind: str  # the error's class
    message: str
    where: str  # file:line in function, as near to the task's own code as can be told
    trace: str

    def encode(self) -> bytes:
        """As stored."""
        return encode(list(self))

    @classmethod
    def decode(cls, data: bytes) -> ErrorInfo:
        """The inverse of `encode`."""
        return cls(*decode(data))


def error_class(error: bytes | None) -> bytes:
    """What of an error goes into the digest."""
    return b"" if error is None else ErrorInfo.decode(error).kind.encode()


def digest_content(row: OutcomeRow) -> tuple[int, bytes]:
    """What of an outcome goes into the digest."""
    return row.status, (error_class(row.error) if row.status >= FAILED else row.value or b"")


def damaged(table: str, what: str) -> StoreDamaged:
    """The error for stored bytes that are not what was written."""
    return StoreDamaged(
        f"the store is damaged: {what} in {table} does not match its checksum",
        hint="run `runyard doctor`; it says what is whole and what to run again",
    )
