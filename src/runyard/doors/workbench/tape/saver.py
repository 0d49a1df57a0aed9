"""The tape: LangGraph's checkpoints of one cell, in memory until they are flushed to a file."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)

from runyard.doors.workbench.tape.file import CheckpointRow, TapeFile, ThreadRows, WriteRow
from runyard.doors.workbench.tape.serde import StrictSerializer

SECONDS = 1.0
"""The longest time between two flushes of a cell that runs."""

Key = tuple[str, str]  # namespace, checkpoint id

_serde = StrictSerializer()


class TapeSaver(BaseCheckpointSaver[str]):
    """The checkpoints of one thread."""

    def __init__(self, thread: str, file: TapeFile | None = None, *, at_once: bool = False) -> None:
        super().__init__(serde=_serde)
        self.thread = thread
        self._file = file
        self._at_once = at_once  # flush every checkpoint before the next step
        self._checkpoints: dict[Key, CheckpointRow] = {}
        self._writes: dict[Key, dict[tuple[str, int], WriteRow]] = {}
        self._news: list[CheckpointRow] = []
        self._new_writes: list[WriteRow] = []
        self._first = True  # nothing was flushed yet
        self._flushed = time.monotonic()
        self._lock = threading.RLock()

    # What the bench does with it

    def load(self, rows: ThreadRows) -> None:
        """Begin with these rows, which count as written by this cell."""
        for row in rows.checkpoints:
            self._checkpoints[row.ns, row.id] = row
            self._news.append(row)
        for write in rows.writes:
            self._writes.setdefault((write.ns, write.id), {})[write.task, write.idx] = write
            self._new_writes.append(write)

    @property
    def rows(self) -> ThreadRows:
        """All rows, as they are stored."""
        with self._lock:
            writes = [row for each in self._writes.values() for row in each.values()]
            return ThreadRows(list(self._checkpoints.values()), writes)

    @property
    def count(self) -> int:
        """The number of checkpoints of the graph itself."""
        return sum(1 for ns, _ in self._checkpoints if not ns)

    def flush(self) -> None:
        """Write what is new to the file."""
        if self._file is None:
            return
        with self._lock:
            if not self._news and not self._new_writes:
                return
            rows = ThreadRows(self._news, self._new_writes)
            self._file.write(self.thread, rows, first=self._first)
            self._news, self._new_writes, self._first = [], [], False
            self._flushed = time.monotonic()

    def flush_if_due(self) -> None:
        """The same for a cell that runs long."""
        if time.monotonic() - self._flushed > SECONDS:
            self.flush()

    # What LangGraph calls

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002
    ) -> RunnableConfig:
        """Add a checkpoint."""
        inside = config["configurable"]
        ns = inside.get("checkpoint_ns", "")
        known = get_checkpoint_metadata(config, metadata)
        text = json.dumps(known, ensure_ascii=False).encode("utf-8", "ignore")
        row = CheckpointRow(
            ns, checkpoint["id"], inside.get("checkpoint_id"), *_serde.dumps_typed(checkpoint), text
        )
        with self._lock:
            self._checkpoints[ns, row.id] = row
            self._news.append(row)
            self._keep_up()
        return self._config(ns, row.id)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Add what a task wrote."""
        inside = config["configurable"]
        ns, at = inside.get("checkpoint_ns", ""), inside["checkpoint_id"]
        replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        with self._lock:
            known = self._writes.setdefault((ns, at), {})
            for number, (channel, value) in enumerate(writes):
                key = task_id, WRITES_IDX_MAP.get(channel, number)
                if key in known and not replaces:
                    continue
                typed = _serde.dumps_typed(value)
                row = WriteRow(ns, at, task_id, task_path, key[1], channel, *typed)
                known[key] = row
                self._new_writes.append(row)
            self._keep_up()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint of a configuration, or the latest one."""
        ns, wanted = config["configurable"].get("checkpoint_ns", ""), get_checkpoint_id(config)
        with self._lock:
            if wanted is None:
                wanted = max((each for space, each in self._checkpoints if space == ns), default="")
            row = self._checkpoints.get((ns, wanted))
            return None if row is None else self._tuple(row)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints, newest first."""
        inside = {} if config is None else config["configurable"]
        space, only = inside.get("checkpoint_ns"), inside.get("checkpoint_id")
        end = None if before is None else get_checkpoint_id(before)
        with self._lock:
            rows = sorted(self._checkpoints.values(), key=lambda row: row.id, reverse=True)
        left = len(rows) if limit is None else limit
        for row in rows:
            if left <= 0:
                return
            if space not in (None, row.ns) or only not in (None, row.id):
                continue
            if end is not None and row.id >= end:
                continue
            if filter:
                known = json.loads(row.metadata)
                if any(known.get(key) != value for key, value in filter.items()):
                    continue
            left -= 1
            yield self._tuple(row)

    def delete_thread(self, thread_id: str) -> None:  # noqa: ARG002
        """Forget everything."""
        with self._lock:
            self._checkpoints.clear()
            self._writes.clear()
            self._news, self._new_writes, self._first = [], [], True

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """As `SqliteSaver` numbers versions, so that either can continue a thread."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        for each in self.list(config, filter=filter, before=before, limit=limit):
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As `put_writes`."""
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        self.delete_thread(thread_id)

    def _keep_up(self) -> None:
        if self._at_once:
            self.flush()
        else:
            self.flush_if_due()

    def _tuple(self, row: CheckpointRow) -> CheckpointTuple:
        writes = sorted(
            self._writes.get((row.ns, row.id), {}).values(),
            key=lambda each: writes_sort_key(each.path, each.task, each.idx),
        )
        return CheckpointTuple(
            self._config(row.ns, row.id),
            _serde.loads_typed((row.type, row.checkpoint)),
            json.loads(row.metadata),
            None if row.parent is None else self._config(row.ns, row.parent),
            [(each.task, each.channel, _serde.loads_typed((each.type, each.value)))
             for each in writes],
        )  # fmt: skip

    def _config(self, ns: str, checkpoint: str) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self.thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint
            }
        }  # fmt: skip
