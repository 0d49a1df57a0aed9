"""The run of one cell, from its parameters to its value and record."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from runyard.attempt.context import Context
from runyard.doors.workbench.graph.checking import WATCH
from runyard.doors.workbench.run.drive import Drive
from runyard.doors.workbench.run.prefix import Prefix, SharedPrefix
from runyard.doors.workbench.run.program import CellProgram
from runyard.doors.workbench.run.values import Recorder
from runyard.doors.workbench.run.watch import CellWatch
from runyard.doors.workbench.tape import records
from runyard.doors.workbench.tape.file import (
    ALONE,
    FOLDER,
    SUFFIX,
    ThreadRows,
    close_files,
    open_file,
)
from runyard.doors.workbench.tape.flusher import flushing
from runyard.doors.workbench.tape.saver import TapeSaver
from runyard.errors import UsageError
from runyard.spaces import task_folder

EVENT = "cell"
"""The kind of the event that a cell ends with."""

COMPLETED, INTERRUPTED = "completed", "interrupted"


def thread_of(batch: str, task: int, attempt: int) -> str:
    """The thread id of an attempt at a cell."""
    return f"{batch}/{task}/{attempt}"


class CellSession:
    """One attempt at a cell. It is entered around the run, and writes what is known at its end."""

    def __init__(self, program: CellProgram, ctx: Context, params: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._program = program
        self._params = params
        program.root = ctx.root
        self._prepared = program.prepared(params["graph"], params.get("nodes", {}))
        self.is_async = self._prepared.is_async
        self._thread = thread_of(ctx.batch, ctx.task, ctx.attempt)
        self._watch = CellWatch()
        self._stack = ExitStack()
        self._has_prefix = False

    def __enter__(self) -> Self:
        if self._ctx.has_own_process and Path.cwd().is_relative_to(self._ctx.folder):
            self._stack.enter_context(_temporary_files_in(Path.cwd() / "tmp"))
        mode = self._program.settings.checkpoints
        self._place = self._find_place()
        self._tape = self._open_tape(mode)
        return self

    def __exit__(self, *error: object) -> None:
        self._watch.end()
        with self._stack:
            if self._ctx.files_travel:
                self._stack.callback(records.close, self._place.parent)
            record = self._watch.record()
            self._tell(record)
            if self._tape is not None:
                self._tape.flush()
            durable = self._program.settings.checkpoints == "durable"
            key = self._thread, self._ctx.worker
            records.append(records.beside(self._place), key, record, durable=durable)

    def run(self) -> dict[str, Any]:
        """Run the graph; returns the value."""
        with self:
            shared = self._shared()
            if shared is not None:
                with shared.locked():
                    prefix = shared.read()
                    if prefix is None:
                        first = self._prefix_drive()
                        first.run()
                        prefix = self._share(shared)
                self._follow(prefix)
            drive = self._start()
            drive.run()
            return self._value(drive)

    async def arun(self) -> dict[str, Any]:
        """The same for a graph that has to be awaited."""
        with self:
            shared = self._shared()
            if shared is not None:
                async with shared.alocked():
                    prefix = shared.read()
                    if prefix is None:
                        first = self._prefix_drive()
                        await first.arun()
                        prefix = self._share(shared)
                self._follow(prefix)
            drive = self._start()
            await drive.arun()
            return self._value(drive)

    def _tell(self, record: Mapping[str, Any]) -> None:
        """One event for the audit log, with what happened in the cell: nodes, retries, forks."""
        start = self._params.get("start", {})
        told = {name: start[name] for name in ("thread", "checkpoint") if name in start}
        told |= {name: record[name] for name in ("retries", "tokens") if record[name]}
        if self._tape is not None:
            told["checkpoints"] = self._tape.count
        told["nodes"] = [f"{name} {seconds or 0.0:.4f} s" for name, _, seconds in record["nodes"]]
        self._ctx.emit(EVENT, **told)

    def _find_place(self) -> Path:
        ctx = self._ctx
        if ctx.files_travel:
            return task_folder(ctx.folder, ctx.task, ctx.attempt) / ALONE
        return _place(ctx.folder, ctx.worker, own_process=ctx.has_own_process)

    def _open_tape(self, mode: str) -> TapeSaver | None:
        """The cell's checkpoints, if they are wanted, or needed to go on after a pause."""
        needed = {
            "answers",
            "start",
            "prefix",
        } & self._params.keys() or self._prepared.has_breakpoints
        if not self._prepared.is_local or (mode == "off" and not needed):
            return None
        if mode == "off":
            return TapeSaver(self._thread)
        file = open_file(self._place, durable=mode == "durable")
        if self._ctx.files_travel:
            self._stack.callback(close_files, self._place.parent)
        tape = TapeSaver(self._thread, file, at_once=mode == "durable")
        self._stack.enter_context(flushing(tape))
        return tape

    def _start(self) -> Drive:
        """The run of the graph, from its input or from where the cell begins instead."""
        graph = self._graph(self._tape)
        drive = self._drive_of(graph)
        start = self._params.get("start")
        if start is not None:
            assert self._tape is not None
            self._tape.load(ThreadRows.unpack(start["rows"]))
        if start is not None or self._has_prefix:
            self._begin_there(drive, graph, start or {"how": "go on"})
        return drive

    def _graph(self, tape: TapeSaver | None, **changes: Any) -> Any:
        program, given = self._program, self._params
        parts = {
            "checkpointer": tape,
            "store": program.store(given.get("store"), self._prepared.graph),
            "cache": program.cache(given["variant"], self._ctx.replicate),
            **changes,
        }
        own = {name: part for name, part in parts.items() if part is not None}
        return self._prepared.fresh(own)

    def _drive_of(self, graph: Any, answers: bool = True) -> Drive:
        program, given = self._program, self._params
        return Drive(
            self._prepared, graph, self._watch,
            first=program.unpacked(given["inputs"]),
            config=self._config(),
            context=program.unpacked(given.get("context")),
            answers=program.unpacked(given.get("answers", ())) if answers else (),
            durability=None if self._tape is None else "sync",
        )  # fmt: skip

    def _begin_there(self, drive: Drive, graph: Any, start: Mapping[str, Any]) -> None:
        """Begin at the checkpoint that the tape ends with, instead of the input."""
        snapshot = graph.get_state({"configurable": {"thread_id": self._thread}})
        expected = start.get("next")
        if expected is not None and sorted(snapshot.next) != expected:
            raise UsageError(
                f"this graph can't go on from the checkpoint: there {_names(expected)} came next, "
                f"and here {_names(snapshot.next)}",
                hint="fork from an earlier checkpoint, or with a variant that has these nodes",
            )
        self._watch.skip(task.id for task in snapshot.tasks if _ended(task))
        drive.begin(snapshot.values)
        if start["how"] == "stay":
            drive.stop(paused=bool(snapshot.next))
        elif start["how"] == "answer" or (self._has_prefix and snapshot.interrupts):
            drive.stop(paused=True, questions={i.id: i.value for i in snapshot.interrupts})
            drive.answer()

    # The prefix that it shares with other variants

    def _shared(self) -> SharedPrefix | None:
        share = self._params.get("prefix")
        if share is None or self._prepared.has_breakpoints or self._tape is None:
            return None
        every = self._program.settings.share_prefix == "across-repetitions"
        replicate = 0 if every else self._ctx.replicate
        return SharedPrefix(self._ctx.folder, share["key"], self._params["case"], replicate)

    def _prefix_drive(self) -> Drive:
        """The run up to the first node in which variants differ."""
        self._first = TapeSaver(self._thread)
        stop = self._params["prefix"]["stop"]
        return self._drive_of(self._graph(self._first, interrupt_before_nodes=stop), answers=False)

    def _share(self, shared: SharedPrefix) -> Prefix:
        self._watch.end()
        prefix = Prefix(self._first.rows, self._watch.record())
        shared.write(prefix)
        return prefix

    def _follow(self, prefix: Prefix) -> None:
        assert self._tape is not None
        self._tape.load(prefix.rows)
        self._watch = CellWatch()
        self._watch.follow(prefix.record)
        self._has_prefix = True

    def _config(self) -> dict[str, Any]:
        given = dict(self._program.unpacked(self._params.get("config", {})))
        inside = {**given.pop("configurable", {}), "thread_id": self._thread, WATCH: self._watch}
        callbacks = [*given.pop("callbacks", ()), self._watch.usage]
        usual = {"recursion_limit": self._program.settings.recursion_limit}
        return {**usual, **given, "configurable": inside, "callbacks": callbacks}

    def _value(self, drive: Drive) -> dict[str, Any]:
        plain = Recorder().plain
        state = plain(drive.state)
        found = {
            "status": INTERRUPTED if drive.paused else COMPLETED,
            "output": self._prepared.output_of(state),
            "state": state,
        }
        if drive.questions:
            found["interrupts"] = plain(list(drive.questions.values()))
        return found


@lru_cache(16)
def _place(folder: Path, worker: int, *, own_process: bool) -> Path:
    """The file of a worker: of its process, or of all lanes that share one."""
    engine, lane = worker >> 16, worker & 0xFFFF
    name = f"{engine}-{lane}" if own_process else str(engine)
    return folder / FOLDER / f"{name}{SUFFIX}"


def _names(nodes: Iterable[str]) -> str:
    return ", ".join(nodes) or "nothing"


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Let a cell that runs inside its workspace keep its temporary files there."""
    folder.mkdir(exist_ok=True)
    before, default = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = default
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def _ended(task: Any) -> bool:
    return task.result is not None and not task.error and not task.interrupts
