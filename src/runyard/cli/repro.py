"""`runyard repro`: rerun one task in this process, without recording it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from runyard import interrupts
from runyard.cli.compared import ShownOutcome, difference, seen
from runyard.cli.results import codec_option
from runyard.cli.session import Session, examples, shared, style
from runyard.cli.tasks import batch_with, task_of
from runyard.errors import BadTarget, TaskTimeout, UsageError
from runyard.spec.hash_seed import own_seed, pinned, shown

if TYPE_CHECKING:
    from runyard.attempt.program import TaskFunction
    from runyard.attempt.wire import Emission, Job
    from runyard.spec.outcome import OutcomeRow
    from runyard.spec.task import Target
    from runyard.store.stored_batch import StoredBatch
    from runyard.yard import Yard


@click.command(
    epilog=examples("runyard repro walks/17", "runyard repro walks/17 --pdb"),
)
@click.argument("task")
@click.option("--pdb", is_flag=True, help="Open the debugger where the task fails.")
@codec_option
@shared
def repro(session: Session, task: str, pdb: bool, codec: str) -> int:
    """Rerun one task in this process and compare.

    TASK is BATCH/NUMBER. It runs with its seed and parameters, but without its memory limit, and
    nothing is recorded. Exit code 0: the same as recorded; 1: different.
    """
    name, number = task_of(task)
    with session.yard() as yard:
        rerun = Rerun(session, yard, batch_with(yard, name, number), number)
    session.pin_hash_seed(pinned(rerun.hash_seed))
    before = rerun.before
    now = rerun.run(pdb=pdb)
    mine, theirs = seen(now, rerun.recorded.codec, "pickle"), None
    if before is not None:
        theirs = seen(before, rerun.recorded.codec, codec)
    code = _tell(session, task, theirs, mine)
    if code and theirs is not None and rerun.hash_seed not in ("", own_seed()):
        session.note(
            f"recorded with {shown(rerun.hash_seed)}, rerun with {shown(own_seed())}: "
            "the order of a set may cause the difference"
        )
    return code


def _tell(session: Session, task: str, recorded: ShownOutcome | None, now: ShownOutcome) -> int:
    if now.trace:
        session.say(now.trace.rstrip())
    same = None if recorded is None else recorded.content == now.content
    session.document(
        {
            "task": task,
            "same": same,
            "recorded": None if recorded is None else recorded.document(),
            "now": now.document(),
        }
    )
    if recorded is None:
        session.say(f"{task}: {now.text}")
        session.note("there is no recorded outcome to compare it with")
        return 0 if now.status == "completed" else 1
    if same:
        session.say(f"{task}: {style('same', fg='green')} as recorded: {now.text}")
        return 0
    session.say(f"{task}: {style('differs', fg='red')}")
    session.say(difference(recorded, now))
    return 1


class Rerun:
    """One recorded task, ready to run in this process."""

    def __init__(self, session: Session, yard: Yard, recorded: StoredBatch, number: int) -> None:
        from runyard.spec.status import CANCELLED
        from runyard.store.versions import hash_seed_of

        self.recorded = recorded
        self._session = session
        self._number = number
        with yard.store.snapshot() as view:
            row = recorded.outcome(view, number)
            self._listed = recorded.task(view, number) if recorded.listed else None
            stored = view.task(recorded.id, number) if recorded.listed else None
            self._labels = recorded.labels(view, number)
        self._content = None if stored is None else stored.content
        self.before = None if row is None or row.status == CANCELLED else row
        self.hash_seed = "" if row is None else hash_seed_of(recorded, row.worker >> 16)

    def run(self, *, pdb: bool) -> OutcomeRow:
        """Run the task; its outcome."""
        from runyard.attempt.load import load

        target = self._target()
        root = self.recorded.row.root
        try:
            os.chdir(root)
        except OSError as error:
            raise UsageError(f"can't enter the batch's folder {root}: {error.strerror}") from error
        load(target, root)  # an error here is not the task's
        self._announce()
        with tempfile.TemporaryDirectory(prefix="runyard-repro-") as folder:
            return self._attempt(Path(folder), target, pdb=pdb)

    def _attempt(self, folder: Path, target: Target, *, pdb: bool) -> OutcomeRow:
        from runyard.attempt.context import enter, follow_threads
        from runyard.attempt.lane_status import LaneStatusFile
        from runyard.attempt.output import OutputCapture
        from runyard.attempt.program import Program
        from runyard.attempt.runner import Runner
        from runyard.attempt.wire import Chunk, Completed, Failure, Item
        from runyard.spec.outcome import OutcomeRow

        lane_status = LaneStatusFile(folder / "lane_status", 1, create=True)
        program = Program(self._job(folder, target))
        runner = Runner(program, 0, lane_status, OutputCapture(), self._emitted)
        attempt = 0 if self.before is None else self.before.attempt
        chunk = Chunk(1, 0, 0, [Item(self._number, attempt, self._content)])
        ready = next(iter(program.tasks(chunk)))
        if pdb:
            ready.target = _watched(ready.target)
        follow_threads()
        enter(runner)
        try:
            with _signals_end_it(), _limit(None if pdb else self._timeout()):
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
        from runyard.spec.outcome import ErrorInfo

        labels = " ".join(f"{name}={value}" for name, value in self._labels.items())
        self._session.note(
            f"rerunning {self.recorded.name}/{self._number}: {labels or 'no parameters'}, "
            f"root seed {self.recorded.seed}"
        )
        error = None if self.before is None else self.before.error
        if error is not None and ErrorInfo.decode(error).kind in ("WorkerDied", "TaskOutOfMemory"):
            self._session.note("it killed its worker, and may kill this process, too")

    def _job(self, folder: Path, target: Target) -> Job:
        from runyard.attempt.wire import Job

        batch, options = self.recorded, self.recorded.options
        return Job(
            batch=batch.id,
            name=batch.name,
            seed=batch.row.seed,
            target=None if batch.listed else (target.kind, target.ref),
            plan=batch.row.plan,
            functions={},
            codec=batch.codec,
            root=batch.row.root,
            path=tuple(sys.path),
            folder=str(folder),
            engine=0,
            lane_status=str(folder / "lane_status"),
            spool=str(folder),
            capture=False,
            template=options.template,
            chdir=options.chdir,
        )

    def _emitted(self, emission: Emission) -> None:
        from runyard.spec.codec import decode

        self._session.note(f"event {emission.kind}: {decode(emission.data)}")


def _watched(target: TaskFunction) -> TaskFunction:
    """The same function, with the debugger where it raises."""
    import pdb

    import msgspec

    def look(error: Exception) -> None:
        trace = error.__traceback__
        pdb.post_mortem(trace.tb_next if trace is not None and trace.tb_next else trace)

    def function(**params: Any) -> Any:
        try:
            return target.function(**params)
        except Exception as error:
            look(error)
            raise

    async def coroutine(**params: Any) -> Any:
        try:
            return await target.function(**params)
        except Exception as error:
            look(error)
            raise

    watched: Callable[..., Any] = coroutine if target.is_coroutine else function
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


@contextlib.contextmanager
def _limit(seconds: float | None) -> Iterator[None]:
    """Interrupt the block after some seconds."""
    if seconds is None:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise TaskTimeout(f"ran longer than its limit of {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
