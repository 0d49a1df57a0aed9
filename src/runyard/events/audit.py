"""The audit log: the history of a batch as JSON lines, each chained to the previous by a hash.

    {"seq":7,"prev":<hash of line 6>,"event":"TaskFailed",…,"hash":<of this line without it>}

The chain reveals changed, removed and inserted lines. It is not signed: anyone who can write to
the file can write a new chain. The store is the authority. The log is not synced to disk while a
batch runs, so a power cut may leave a torn tail, which is repaired when the log is next opened.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from runyard import clock, faults
from runyard.errors import (
    DISK_FULL,
    NotFound,
    StoreDamaged,
    StoreError,
    StoreForbidden,
    StoreFull,
)
from runyard.events.plain import json_safe
from runyard.events.redact import Redactor
from runyard.modes import make_folder

_HASH_CHARS = 32
_OWN_KEYS = frozenset({"seq", "prev", "hash"})
_FIRST_BYTES = b'{"seq":1,"prev":"'
_LINE = re.compile(
    rb'(\{"seq":([0-9]{1,18}),"prev":"([0-9a-f]{32})".*),"hash":"([0-9a-f]{32})"\}\n', re.DOTALL
)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class _Link(NamedTuple):
    """The number and hash that the next line continues from."""

    seq: int = 0
    hash: str = "0" * _HASH_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The result of verifying an audit log."""

    lines: int
    """The number of intact lines."""

    ok: bool

    first_bad_line: int | None = None
    """The first changed, missing or foreign line, counted from 1, that is followed by intact ones;
    1 if no line is intact and the file is not a torn first line either."""

    torn_bytes: int = 0
    """Bytes after the last intact line."""

    reason: str | None = None
    """What is wrong, in one sentence."""


class AuditLog:
    """Appends records to a hash-chained JSONL file; safe with several threads and processes.

    Making one creates the file, or repairs a torn tail and adds a record of the repair.
    `redact` removes secrets from each record; by default, a `Redactor` for this environment.
    """

    def __init__(self, path: Path, *, redact: Callable[[Any], Any] | None = None) -> None:
        self.path = path
        self._redact = Redactor().redact if redact is None else redact
        self._link = _Link()
        self._size = 0
        with self._locked():
            pass

    def append(self, records: Iterable[dict[str, Any]]) -> None:
        """Write the records as one group: all of them, or none and an error."""
        bodies = [self._body(record) for record in records]
        if bodies:
            with self._locked() as fd:
                self._write(fd, bodies)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, locked exclusively, with `_size` and `_link` set to its end.

        It is opened anew each time: threads and forked children would share an open file's lock,
        and an open file may have been removed.
        """
        try:
            make_folder(self.path.parent)
            fd = _descriptor(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise _failure(self.path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            size = os.fstat(fd).st_size
            if size != self._size:
                self._catch_up(fd, size)
            yield fd
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _catch_up(self, fd: int, size: int) -> None:
        known = self._size
        end, self._link = _last_link(fd, size)
        if end == 0 and not _is_torn_start(os.pread(fd, len(_FIRST_BYTES), 0)):
            raise StoreDamaged(
                f"{self.path} is not an audit log: it has no line that Runyard wrote",
                hint="move the file away, or give the log another path",
            )
        self._size = end
        if end < size:
            os.ftruncate(fd, end)
            repaired = {"event": "AuditRepaired", "at": clock.now(), "bytes": size - end}
            self._write(fd, [self._body(repaired)])
        elif known and not size:  # earlier records were in a file that was removed
            self._write(fd, [self._body({"event": "AuditRestarted", "at": clock.now()})])

    def _body(self, record: dict[str, Any]) -> str:
        plain = self._redact(json_safe(record))
        return _encode({key: item for key, item in plain.items() if key not in _OWN_KEYS})[1:-1]

    def _write(self, fd: int, bodies: list[str]) -> None:
        link, lines = self._link, []
        for body in bodies:
            comma = "," if body else ""
            head = f'{{"seq":{link.seq + 1},"prev":"{link.hash}"{comma}{body}'.encode()
            link = _Link(link.seq + 1, _hash(head))
            lines.append(head + f',"hash":"{link.hash}"}}\n'.encode())
        group = memoryview(b"".join(lines))
        try:
            faults.point("audit")
            written = os.write(fd, group)
            while written < len(group):
                written += os.write(fd, group[written:])
        except OSError as error:
            os.ftruncate(fd, self._size)
            raise _failure(self.path, error) from error
        self._link = link
        self._size += len(group)


def read(
    path: Path, *, after: int = 0, event: str | None = None, task: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the records after this seq, of this event and task, and stop before a torn tail.

    Neither a damaged line nor any line after it is yielded: StoreDamaged names the line.
    """
    try:
        file = _opened(path)
    except FileNotFoundError:
        return
    with file:
        for line in _walk(file, _settled_size(file)):
            if line.problem:
                raise StoreDamaged(
                    f"the audit log {path} is damaged: {line.problem}",
                    hint="run `runyard doctor` for details",
                )
            if line.seq <= after:
                continue
            record: dict[str, Any] = json.loads(line.text)
            if event in (None, record.get("event")) and task in (None, record.get("task")):
                yield record


def verify(path: Path) -> AuditReport:
    """Read the whole log and report whether every line is intact and continues the previous one."""
    try:
        file = _opened(path)
    except FileNotFoundError:
        raise NotFound(f"there is no audit log at {path}") from None
    with file:
        return _report(file, _settled_size(file))


def repair(path: Path) -> AuditReport:
    """Cut off a torn tail; report the log as it is now, but with the `torn_bytes` from before.

    Changed lines above the tail stay as they are, and the report names the first of them.
    """
    before = verify(path)
    AuditLog(path)  # which cuts it off
    return replace(verify(path), torn_bytes=before.torn_bytes)


def _opened(path: Path) -> BinaryIO:
    try:
        return open(_descriptor(path, os.O_RDONLY), "rb")
    except FileNotFoundError as error:
        if not path.is_symlink():
            raise
        raise StoreError(f"can't read the audit log {path}: it is a broken link") from error
    except PermissionError as error:
        raise StoreForbidden(
            f"can't read the audit log {path}: {error.strerror}", hint="ask its owner for access"
        ) from error
    except OSError as error:
        raise StoreError(f"can't read the audit log {path}: {error.strerror or error}") from error


def _descriptor(path: Path, flags: int) -> int:
    """Open a regular file; anything that could block, such as a pipe, is refused."""
    try:
        found = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket
            raise
    else:
        if stat.S_ISREG(os.fstat(found).st_mode):
            return found
        os.close(found)
    raise StoreDamaged(f"{path} is not an audit log: it is not a regular file", hint="move it away")


class _Line(NamedTuple):
    """An intact line, and what is wrong with its position in the log."""

    text: bytes
    end: int
    seq: int
    bad: int
    problem: str | None


def _walk(file: BinaryIO, size: int) -> Iterator[_Line]:
    """Yield the intact lines; a damaged line is reported as a problem of the next intact one."""
    link, end, number, damaged = _Link(), 0, 0, 0
    while end < size and (text := file.readline(size - end)):
        end += len(text)
        number += 1
        match = _good(text)
        if match is None:
            damaged = damaged or number
            continue
        problem = None
        if damaged:
            problem = f"line {damaged} was altered"
        elif (int(match[2]), match[3].decode()) != (link.seq + 1, link.hash):
            problem = f"line {number} does not continue the line before it"
        link = _Link(int(match[2]), match[4].decode())
        yield _Line(text, end, link.seq, damaged or number, problem)
        damaged = 0


def _report(file: BinaryIO, size: int) -> AuditReport:
    lines = good_end = 0
    first_bad: int | None = None
    reason: str | None = None
    for line in _walk(file, size):
        lines += 1
        good_end = line.end
        if line.problem and first_bad is None:
            first_bad, reason = line.bad, line.problem
    torn = size - good_end
    head = os.pread(file.fileno(), len(_FIRST_BYTES), 0)
    if torn and not lines and not (head.strip(b"\0") and _is_torn_start(head)):
        first_bad, reason = 1, f"it has {size} bytes, but no valid line"
    elif torn and reason is None:
        reason = f"{torn} bytes after line {lines} are an incomplete line"
    return AuditReport(
        lines=lines, ok=reason is None, first_bad_line=first_bad, torn_bytes=torn, reason=reason
    )


def _settled_size(file: BinaryIO) -> int:
    """The size between two appends; bytes before it no longer change."""
    fcntl.flock(file, fcntl.LOCK_SH)
    try:
        return os.fstat(file.fileno()).st_size
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _hash(head: bytes) -> str:
    return hashlib.sha256(head + b"}").hexdigest()[:_HASH_CHARS]


def _good(line: bytes) -> re.Match[bytes] | None:
    match = _LINE.fullmatch(line)
    return match if match and _hash(match[1]) == match[4].decode() else None


def _last_link(fd: int, size: int) -> tuple[int, _Link]:
    """Find the last intact line, from the end; return where it ends, and its link."""
    span = 1 << 16
    while True:
        start = max(0, size - span)
        data = os.pread(fd, size - start, start)
        end = len(data)
        while (newline := data.rfind(b"\n", 0, end)) >= 0:
            begin = data.rfind(b"\n", 0, newline) + 1
            match = _good(data[begin : newline + 1]) if begin or not start else None
            if match:
                return start + newline + 1, _Link(int(match[2]), match[4].decode())
            end = newline
        if start == 0:
            return 0, _Link()
        span *= 4


def _is_torn_start(head: bytes) -> bool:
    return _FIRST_BYTES.startswith(head.rstrip(b"\0"))


def _failure(path: Path, error: OSError) -> StoreError:
    if error.errno in DISK_FULL:
        return StoreFull(
            f"no room left on the disk for the audit log {path}",
            hint="free some space, then run `runyard resume`; nothing recorded is lost",
        )
    return StoreError(f"the audit log {path} can't be written: {error.strerror or error}")
