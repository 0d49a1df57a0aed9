"""Rerun one recorded task in this process, without recording it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from runyard import interrupts
from runyard.attempt.context import enter, follow_threads
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.load import load
from runyard.attempt.output import OutputCapture
from runyard.attempt.program import Program, TaskFunction
from runyard.attempt.runner import Runner
from runyard.attempt.wire import Chunk, Completed, Emission, Failure, Item, Job
from runyard.backends.serial import alarm
from runyard.errors import BadTarget, UsageError
from runyard.spec.batch import encode_listed
from runyard.spec.codec import decode
from runyard.spec.options import Options
from runyard.spec.outcome import ErrorInfo, OutcomeRow
from runyard.spec.status import CANCELLED
from runyard.spec.task import Target
from runyard.store.versions import hash_seed_of
from runyard.yard import Yard


class Rerun:
    """One recorded task, ready to run in this process."""

    def __init__(self, yard: Yard, name: str, number: int, note: Callable[[str], None]) -> None:
        self.recorded = yard.recorded(name)
        self._number = number
        self._note = note
        with yard.store.snapshot() as view:
            self.recorded.check_task(view, number)
            row = self.recorded.outcome(view, number)
            is_listed = self.recorded.listed
            self._listed = self.recorded.task(view, number) if is_listed else None
            self._labels = self.recorded.labels(view, number)
        self.before = None if row is None or row.status == CANCELLED else row
        self.hash_seed = "" if row is None else hash_seed_of(self.recorded, row.worker >> 16)

    def run(self, *, pdb: bool = False) -> OutcomeRow:
        """Run the task, with the debugger where it fails if `pdb`."""
        target = self._target()
        root = self.recorded.row.root
        try:
            os.chdir(root)
        except OSError as error:
            raise UsageError(f"can't enter the batch's folder {root}: {error.strerror}") from error
        load(target, root)  # an error here is not the task's
        self._announce()
        with tempfile.TemporaryDirectory(prefix="runyard-repro-") as folder:
            return self._attempt(Path(folder), pdb=pdb)

    def _attempt(self, folder: Path, *, pdb: bool) -> OutcomeRow:
        lane_status = LaneStatusFile(folder / "lane_status", 1, create=True)
        program = Program(self._job(folder))
        runner = Runner(program, 0, lane_status, OutputCapture(), self._emitted)
        attempt = 0 if self.before is None else self.before.attempt
        content = None if self._listed is None else encode_listed(self._listed)
        chunk = Chunk(1, 0, 0, [Item(self._number, attempt, content)])
        ready = next(iter(program.tasks(chunk)))
        if pdb:
            ready.target = _watched(ready.target)
        follow_threads()
        enter(runner)
        try:
            with _signals_end_it(), alarm(None if pdb else self._timeout(), runner):
                made = runner.run(ready)
        finally:
            enter(None)
            runner.rest()
            lane_status.close()
            os.chdir(self.recorded.row.root)
        return made.row if isinstance(made, Failure | Completed) else OutcomeRow._make(made)

    def _target(self) -> Target:
        target = self._listed.target if self._listed is not None else self.recorded.target
        assert target is not None
        if target.kind == "value":
            raise BadTarget(
                f"the function {target.ref} was sent by value and is not stored",
                hint="put it into a file and run it as path/file.py:function",
            )
        return target

    def _timeout(self) -> float | None:
        own = None if self._listed is None else self._listed.timeout
        return self.recorded.options.timeout if own is None else own

    def _announce(self) -> None:
        labels = " ".join(f"{name}={value}" for name, value in self._labels.items())
        self._note(
            f"rerunning {self.recorded.name}/{self._number}: {labels or 'no parameters'}, "
            f"root seed {self.recorded.seed}"
        )
        error = None if self.before is None else self.before.error
        if error is not None and ErrorInfo.decode(error).kind in ("WorkerDied", "TaskOutOfMemory"):
            self._note("this task killed its worker, and may kill this process too")

    def _job(self, folder: Path) -> Job:
        batch, options = self.recorded, self.recorded.options
        return Job(
            batch=batch.id,
            name=batch.name,
            seed=batch.row.seed,
            target=batch.target,
            plan=batch.row.plan,
            functions={},
            codec=batch.codec,
            root=batch.row.root,
            path=tuple(sys.path),
            folder=str(folder),
            engine=0,
            lane_status=str(folder / "lane_status"),
            spool=str(folder),
            options=Options(capture=False, template=options.template, chdir=options.chdir),
        )

    def _emitted(self, emission: Emission) -> None:
        self._note(f"event {emission.kind}: {decode(emission.data)}")


def _watched(target: TaskFunction) -> TaskFunction:
    """The same function, with the debugger where it raises."""
    import pdb

    import msgspec

    @contextlib.contextmanager
    def look() -> Iterator[None]:
        try:
            yield
        except Exception as error:
            trace = error.__traceback__
            inside = trace and trace.tb_next and trace.tb_next.tb_next
            pdb.post_mortem(inside or trace)
            raise

    async def coroutine(**params: Any) -> Any:
        with look():
            return await target.function(**params)

    watched: Callable[..., Any] = coroutine if target.is_coroutine else look()(target.function)
    return msgspec.structs.replace(target, function=watched)


@contextlib.contextmanager
def _signals_end_it() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end this program; to the task, they would be errors of its own."""
    from runyard.attempt.runner import StopNow

    heard = [n for n in interrupts.SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
    numbers: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        numbers.append(number)
        raise StopNow

    try:
        with interrupts.handled(hear, heard):
            yield
    except StopNow:
        interrupts.note_end()
        if numbers[0] == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
