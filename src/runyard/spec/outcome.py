"""An outcome as made in a worker and stored: a row with its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from runyard import clock
from runyard.errors import RunyardError, StoreDamaged
from runyard.spec.codec import checksum, decode, encode
from runyard.spec.status import CANCELLED, FAILED


class OutcomeRow(NamedTuple):
    """The end of a task. Made in the worker, with its checksum, and stored unchanged."""

    task: int
    status: int
    attempt: int  # the number of its earlier errors
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
        """The row, if it has not changed since it was written."""
        if checksum(self[:-1], batch) != self.checksum:
            raise damaged("outcomes", f"task {self.task}")
        return self


WIDTH = len(OutcomeRow._fields)
PAGE = 4096
_decode_rows = msgspec.msgpack.Decoder(list[Any]).decode


def workers_of(low: int, high: int) -> tuple[int, int]:
    """The first and last value of `worker` for engines from `low` to below `high`."""
    return low << 16, (high << 16) - 1


def check_all(rows: Iterable[tuple[Any, ...]], batch: int) -> None:
    """Raise for the first row that has changed since it was written."""
    for row in rows:
        if checksum(row[:-1], batch) != row[-1]:
            raise damaged("outcomes", f"task {row[0]}")


class Rows(Sequence[OutcomeRow]):
    """Rows as flat lists, as they are sent and written to a database.

    A million small objects would cost more than their content; one long list costs little. Rows of
    a report stay encoded until they are needed.
    """

    __slots__ = ("_count", "_parts")

    def __init__(self, *parts: list[Any] | bytes) -> None:
        self._parts = parts
        self._count = sum(map(_length, parts)) // WIDTH

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]]) -> Rows:
        """Rows in this form."""
        return rows if isinstance(rows, Rows) else cls(list(chain.from_iterable(rows)))

    @classmethod
    def joined(cls, several: Iterable[Rows]) -> Rows:
        """All of several."""
        return cls(*(part for rows in several for part in rows._parts))

    @property
    def flat(self) -> list[Any]:
        """All columns of the first row, then those of the next one, and so on."""
        if len(self._parts) != 1 or isinstance(self._parts[0], bytes):
            self._parts = (list(chain.from_iterable(map(_decoded, self._parts))),)
        return _decoded(self._parts[0])

    def pages(self) -> Iterator[Rows]:
        """The rows in lists of a moderate size, decoded only now: that they are still in the
        processor's cache when they are written saves a fifth of the time."""
        page: list[Any] = []
        for part in self._parts:
            if page and (len(page) + _length(part)) // WIDTH > PAGE:
                yield Rows(page)
                page = []
            page = page + _decoded(part) if page else _decoded(part)
        if page:
            yield Rows(page)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        flat = self.flat
        start = range(0, len(flat), WIDTH)[at]
        return OutcomeRow._make(flat[start : start + WIDTH])

    def only(self, wanted: Callable[[OutcomeRow], bool]) -> Rows:
        """The rows that `wanted` accepts."""
        return Rows.of(row for row in self if wanted(row))

    @property
    def tasks(self) -> list[int]:
        """The numbers of their tasks."""
        return self.flat[::WIDTH]

    @property
    def size(self) -> int:
        """The approximate size of their values in bytes."""
        lists = (part for part in self._parts if not isinstance(part, bytes))
        encoded = sum(len(part) for part in self._parts if isinstance(part, bytes))
        return encoded + sum(len(value) for flat in lists for value in flat[3::WIDTH] if value)

    @property
    def largest(self) -> int:
        """The size of their largest value in bytes."""
        return max(map(len, filter(None, self.flat[3::WIDTH])), default=0)

    @property
    def statuses(self) -> set[int]:
        """The status codes that occur."""
        return set(self.flat[1::WIDTH])


def _length(part: list[Any] | bytes) -> int:
    """How many items a list has, which may be encoded."""
    if isinstance(part, list):
        return len(part)
    return part[0] & 15 if part[0] < 0xA0 else int.from_bytes(part[1 : 3 if part[0] == 0xDC else 5])


def _decoded(part: list[Any] | bytes) -> list[Any]:
    return part if isinstance(part, list) else _decode_rows(part)


class Printed(NamedTuple):
    """What an attempt printed. Streams too long for the store are in files."""

    task: int
    attempt: int
    stdout: bytes | None  # None: in a file, on the machine that ran the task
    stderr: bytes | None

    @property
    def size(self) -> int:
        """The bytes of it that go to the store."""
        return len(self.stdout or b"") + len(self.stderr or b"")


class ErrorInfo(NamedTuple):
    """Why a task failed."""

    kind: str  # the error's class
    message: str
    where: str  # file:line in function, as close to the task's code as possible
    trace: str

    def encode(self) -> bytes:
        """As stored."""
        return encode(list(self))

    def with_note(self, note: str) -> ErrorInfo:
        """The error with a note after its message."""
        return self._replace(message=f"{self.message} ({note})")

    @classmethod
    def decode(cls, data: bytes) -> ErrorInfo:
        """The inverse of `encode`."""
        with decoding_stored("an error"):
            info = cls(*decode(data))
            if not all(isinstance(part, str) for part in info):
                raise TypeError("not all of its parts are text")
            return info


def error_class(error: bytes | None) -> bytes:
    """The part of an error that goes into the digest."""
    return b"" if error is None else ErrorInfo.decode(error).kind.encode()


def digest_content(row: OutcomeRow) -> tuple[int, bytes]:
    """The part of an outcome that goes into the digest."""
    return row.status, (error_class(row.error) if row.status >= FAILED else row.value or b"")


class decoding_stored:  # noqa: N801
    """Turn any error inside `with decoding_stored(what)` into StoreDamaged."""

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
    """The error for stored bytes that differ from what was written."""
    return StoreDamaged(
        f"the store is damaged: {what} in {table} does not match its checksum",
        hint="run `runyard doctor` to see what is damaged and what to rerun",
    )
