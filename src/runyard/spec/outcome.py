"""An outcome as it is made in a worker and stored: a row with its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from types import TracebackType
from typing import Any, NamedTuple

from runyard import clock
from runyard.errors import RunyardError, StoreDamaged
from runyard.spec.codec import checksum, decode, encode
from runyard.spec.status import CANCELLED, FAILED


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
    def with_checksum(cls, batch: int, *columns: Any) -> OutcomeRow:
        """A row with its checksum over the batch and every column."""
        return cls._make((*columns, checksum(columns, batch)))

    @classmethod
    def cancelled(
        cls,
        batch: int,
        task: int,
        kind: str = "TaskCancelled",
        reason: str = "cancelled on request",
    ) -> OutcomeRow:
        """The outcome of a task that never ran, or was ended on request."""
        error = ErrorInfo(kind, reason, "", "").encode()
        return cls.with_checksum(batch, task, CANCELLED, 0, None, error, clock.now(), 0.0, 0)

    def check(self, batch: int) -> OutcomeRow:
        """The row itself, if nothing in it has changed since it was written."""
        if checksum(self[:-1], batch) != self.checksum:
            raise damaged("outcomes", f"task {self.task}")
        return self


WIDTH = len(OutcomeRow._fields)


def workers_of(low: int, high: int) -> tuple[int, int]:
    """The first and last value of `worker` that engines from `low` up to `high` write."""
    return low << 16, (high << 16) - 1


def check_all(rows: Iterable[tuple[Any, ...]], batch: int) -> None:
    """Raise for the first row that has changed since it was written."""
    for row in rows:
        if checksum(row[:-1], batch) != row[-1]:
            raise damaged("outcomes", f"task {row[0]}")


class Rows(Sequence[OutcomeRow]):
    """Many rows, kept as one flat list: the form they travel in and go to a database in.

    A million small objects cost more than what is in them; one long list costs nothing.
    """

    __slots__ = ("flat",)

    def __init__(self, flat: list[Any]) -> None:
        self.flat = flat

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]]) -> Rows:
        """Rows in this form, whatever form they had."""
        return rows if isinstance(rows, Rows) else cls(list(chain.from_iterable(rows)))

    def __len__(self) -> int:
        return len(self.flat) // WIDTH

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        start = range(0, len(self.flat), WIDTH)[at]
        return OutcomeRow._make(self.flat[start : start + WIDTH])

    def only(self, wanted: Callable[[OutcomeRow], bool]) -> Rows:
        """Those that are wanted."""
        return Rows.of(row for row in self if wanted(row))

    @property
    def tasks(self) -> list[int]:
        """The tasks that they are of."""
        return self.flat[::WIDTH]

    @property
    def size(self) -> int:
        """About how many bytes of memory their values take."""
        return sum(map(len, filter(None, self.flat[3::WIDTH])))

    @property
    def largest(self) -> int:
        """How many bytes the largest of their values has."""
        return max(map(len, filter(None, self.flat[3::WIDTH])), default=0)

    @property
    def statuses(self) -> set[int]:
        """The status codes that occur."""
        return set(self.flat[1::WIDTH])


class Printed(NamedTuple):
    """What an attempt printed. A stream that is too long for the store is in a file."""

    task: int
    attempt: int
    stdout: bytes | None  # None: in a file, on the machine that ran the task
    stderr: bytes | None

    @property
    def size(self) -> int:
        """How many bytes of it go to the store."""
        return len(self.stdout or b"") + len(self.stderr or b"")


class ErrorInfo(NamedTuple):
    """Why a task failed."""

    kind: str  # the error's class
    message: str
    where: str  # file:line in function, as near to the task's own code as can be told
    trace: str

    def encode(self) -> bytes:
        """As stored."""
        return encode(list(self))

    def with_note(self, note: str) -> ErrorInfo:
        """The error with something to know beside its message."""
        return self._replace(message=f"{self.message} ({note})")

    @classmethod
    def decode(cls, data: bytes) -> ErrorInfo:
        """The inverse of `encode`."""
        with decoding_stored("an error"):
            info = cls(*decode(data))
            if not all(isinstance(part, str) for part in info):
                raise TypeError("its parts are no texts")
            return info


def error_class(error: bytes | None) -> bytes:
    """What of an error goes into the digest."""
    return b"" if error is None else ErrorInfo.decode(error).kind.encode()


def digest_content(row: OutcomeRow) -> tuple[int, bytes]:
    """What of an outcome goes into the digest."""
    return row.status, (error_class(row.error) if row.status >= FAILED else row.value or b"")


class decoding_stored:  # noqa: N801
    """Whatever goes wrong with stored bytes inside `with decoding_stored(what)` is damage."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, RunyardError):
            raise StoreDamaged(
                f"the store is damaged: {self._what} can't be read ({error})",
                hint="run `runyard doctor`",
            ) from error


def damaged(table: str, what: str) -> StoreDamaged:
    """The error for stored bytes that are not what was written."""
    return StoreDamaged(
        f"the store is damaged: {what} in {table} does not match its checksum",
        hint="run `runyard doctor`; it says what is whole and what to run again",
    )
