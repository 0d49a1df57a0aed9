"""The file of a worker's tapes, in the schema of LangGraph's `SqliteSaver`, which opens it.

    worker ── one transaction a cell ──▶ <batch>/tapes/<worker>.sqlite    (WAL)
    Ray node that can't see the yard ──▶ <batch>/tasks/<task>/<attempt>/tape.sqlite, which travels
                                         to the yard with the task's other files

Beside it lies the file of the cells' records (`records`). Never imports LangGraph.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from runyard import modes
from runyard.errors import StoreError
from runyard.spaces import task_folder
from runyard.spec.codec import decode, encode

FOLDER, SUFFIX, ALONE = "tapes", ".sqlite", "tape.sqlite"

_SCHEMA = """
PRAGMA journal_mode=WAL;
CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint BLOB,
    metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE IF NOT EXISTS writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_path TEXT NOT NULL DEFAULT '',
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""
_MOST_OPEN = 8
_PATIENCE = 30.0


class CheckpointRow(NamedTuple):
    """A checkpoint as it is stored, without its thread."""

    ns: str
    id: str
    parent: str | None
    type: str
    checkpoint: bytes
    metadata: bytes


class WriteRow(NamedTuple):
    """What a task wrote, as it is stored, without its thread."""

    ns: str
    id: str
    task: str
    path: str
    idx: int
    channel: str
    type: str
    value: bytes


class ThreadRows(NamedTuple):
    """The rows of a thread."""

    checkpoints: Sequence[CheckpointRow]
    writes: Sequence[WriteRow]

    def pack(self) -> bytes:
        """Bytes that `unpack` reads."""
        return encode([[list(row) for row in part] for part in self])

    @classmethod
    def unpack(cls, data: bytes) -> ThreadRows:
        """The inverse of `pack`."""
        checkpoints, writes = decode(data)
        return cls([CheckpointRow(*row) for row in checkpoints], [WriteRow(*row) for row in writes])


class TapeFile:
    """A file that this process writes to. Threads share it."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        modes.make_folder(path.parent)
        self.path = path
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        self.inode = path.stat().st_ino

    def write(self, thread: str, rows: ThreadRows, *, first: bool) -> None:
        """Add rows of a thread in one transaction; with `first`, instead of those it has."""
        with self._lock:
            run = self._connection.execute
            run("BEGIN IMMEDIATE")
            try:
                if first:
                    for table in ("checkpoints", "writes"):
                        run(f"DELETE FROM {table} WHERE thread_id = ?", (thread,))
                self._insert("checkpoints", 7, ((thread, *row) for row in rows.checkpoints))
                self._insert("writes", 9, ((thread, *row) for row in rows.writes))
                run("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    run("ROLLBACK")
                raise

    def close(self) -> None:
        """Write what is in the log to the file itself."""
        with self._lock:
            self._connection.close()

    def _insert(self, table: str, width: int, rows: Iterable[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * width)
        self._connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)


_open: OrderedDict[tuple[int, Path, bool], TapeFile] = OrderedDict()
_opening = threading.Lock()


def open_file(path: Path, *, durable: bool = False) -> TapeFile:
    """The file at a path, which stays open in this process."""
    key = os.getpid(), path, durable
    with _opening:
        found = _open.get(key)
        if found is not None and _inode(path) == found.inode:
            _open.move_to_end(key)
            return found
        if found is not None:  # the yard was removed and made again
            _open.pop(key).close()
        made = _open[key] = TapeFile(path, durable=durable)
        while len(_open) > _MOST_OPEN:
            _open.popitem(last=False)[1].close()
        return made


def close_files(folder: Path) -> None:
    """Close what this process has open below a folder."""
    with _opening:
        for key in [key for key in _open if key[1].is_relative_to(folder)]:
            _open.pop(key).close()


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def places(batch: Path, task: int, attempt: int, worker: int) -> list[Path]:
    """Where the tape of an attempt may be; `worker` is the number in its outcome."""
    engine, lane = worker >> 16, worker & 0xFFFF
    return [
        task_folder(batch, task, attempt) / ALONE,
        batch / FOLDER / f"{engine}-{lane}{SUFFIX}",
        batch / FOLDER / f"{engine}{SUFFIX}",
    ]


def read_rows(path: Path, thread: str) -> ThreadRows:
    """The rows of a thread."""
    found = _read(
        path,
        thread,
        "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata "
        "FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id",
        "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value "
        "FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx",
    )
    return ThreadRows(
        [CheckpointRow(*row) for row in found[0]], [WriteRow(*row) for row in found[1]]
    )


def _read(path: Path, thread: str | None, *queries: str) -> list[list[Any]]:
    if not path.is_file():
        return [[] for _ in queries]
    try:
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as connection:
            given = () if thread is None else (thread,)
            return [connection.execute(query, given).fetchall() for query in queries]
    except sqlite3.Error as error:
        raise StoreError(f"the checkpoints in {path} can't be read: {error}") from error
