"""For tests of your own batches: a backend that plays a script instead of running functions.

    from runyard.testing import StubBackend, memory_yard

    def test_a_task_that_fails_once_is_retried(memory_yard):
        stub = StubBackend({3: [ValueError("no luck"), 7]}, default=0)
        result = memory_yard.run(ry.grid(play, x=range(10)), backend=stub, retries=1)
        assert result.stats.completed == 10
        assert stub.attempts[3] == 2

No function is called and no process is started, so such a test takes milliseconds. The scheduler,
the store and the events are the real ones.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runyard import clock
from runyard.attempt.lane_status import LaneStatus, LaneStatusFile
from runyard.attempt.raised import class_names, error_info
from runyard.attempt.wire import Chunk, Failure, Job, Loss, LossCause, Report
from runyard.backends.base import Backend, Capabilities
from runyard.errors import UsageError
from runyard.spec.codec import encode_as
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import COMPLETED, FAILED
from runyard.yard import Yard

with contextlib.suppress(ImportError):
    import pytest

    @pytest.fixture
    def memory_yard() -> Iterator[Yard]:
        """A yard of the test's own, in memory."""
        with Yard("memory:") as yard:
            yield yard


class Dies:
    """An attempt whose worker dies."""

    def __init__(self, reason: str = "killed by SIGKILL") -> None:
        self.reason = reason


class Hangs:
    """An attempt that does not end until it is cancelled or its time limit is over."""


class StubBackend(Backend):
    """Gives each attempt the outcome that a script says.

    `script` maps a task's number to the outcomes of its attempts, in order; the last one repeats. A
    value completes the task, an exception fails it, `Dies()` loses its worker, `Hangs()` never
    ends. Tasks without a script return `default`, or raise it if it is an exception.
    """

    name = "stub"
    capabilities = Capabilities(
        hard_kill=True, memory_limit=True, own_directory=True, descriptor_capture=True,
        survives_crash=True, places=True,
    )  # fmt: skip

    def __init__(
        self,
        script: Mapping[int, Sequence[Any]] | None = None,
        *,
        default: Any = None,
        workers: int = 2,
    ) -> None:
        super().__init__(workers)
        self.script = dict(script or {})
        for task, outcomes in self.script.items():
            if not isinstance(outcomes, list | tuple | deque) or not outcomes:
                raise UsageError(
                    f"the script of task {task} is {outcomes!r}, not a list of outcomes",
                    hint=f"write {{{task}: [first attempt, second attempt, …]}}",
                )
        self.default = default
        self.attempts: Counter[int] = Counter()  # that were started, by task
        self.started: list[int] = []  # tasks in the order of their starts
        self.sent: list[tuple[int, list[int]]] = []  # each chunk's lane and tasks
        self._chunks: dict[int, deque[Chunk]] = {}
        self._hanging: set[int] = set()  # lanes
        self._losses: list[Loss] = []
        self._woken = threading.Event()

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        self._job = job
        self._status = lane_status
        self._chunks = {lane: deque() for lane in range(self.lanes)}

    def send(self, lane: int, chunk: Chunk) -> None:
        self.sent.append((lane, list(chunk.tasks())))
        self._chunks[lane].append(chunk)

    def poll(self, timeout: float) -> list[Report | Loss]:
        found: list[Report | Loss] = [*self._losses]
        self._losses.clear()
        for lane, chunks in self._chunks.items():
            if chunks and lane not in self._hanging:
                found += self._play(lane, chunks)
        if not found:
            self._woken.wait(timeout)
            self._woken.clear()
        return found

    def end(self, lane: int, status: LaneStatus, cause: LossCause, reason: str) -> None:
        if lane in self._hanging and self._status.read(lane) == status:
            self._lose(lane, cause, reason)

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._chunks = {}
        self._hanging.clear()

    def again(self) -> StubBackend:
        return self

    def _play(self, lane: int, chunks: deque[Chunk]) -> list[Report | Loss]:
        """Play the first chunk of a lane, up to a task that dies or hangs."""
        chunk, rows, failures, done = chunks[0], list[Any](), list[Failure](), 0
        begin = time.perf_counter()
        is_over = True
        for position in range(chunk.size):
            if self._status.stopped(lane) >= chunk.id:
                break
            item = chunk.item(position)
            outcome = self._outcome(item.task)
            self._status.writer(lane)(
                self._job.batch, item.task, item.attempt, chunk.id, time.perf_counter()
            )
            if isinstance(outcome, Hangs | Dies):
                is_over = False
                break
            done += 1
            if isinstance(outcome, BaseException):
                failures.append(self._failure(lane, item.task, item.attempt, outcome))
            else:
                rows += self._row(lane, item.task, item.attempt, outcome)
        seconds = time.perf_counter() - begin
        report = Report(lane, chunk.id, done, rows, failures, [], [], seconds, is_over)
        if is_over:
            self._status.idle(lane)
            chunks.popleft()
        elif isinstance(outcome, Dies):
            self._lose(lane, LossCause.WORKER_DIED, outcome.reason)
        else:
            self._hanging.add(lane)
        return [report] if is_over or done else []

    def _outcome(self, task: int) -> Any:
        script = self.script.get(task, (self.default,))
        outcome = script[min(self.attempts[task], len(script) - 1)]
        self.attempts[task] += 1
        self.started.append(task)
        return outcome

    def _lose(self, lane: int, cause: LossCause, reason: str) -> None:
        """The lane's worker is gone; another one takes its place."""
        self._losses.append(Loss.of(lane, self._status.read(lane), cause, reason))
        self._chunks[lane].clear()
        self._hanging.discard(lane)
        self._status.clear(lane)
        self._woken.set()

    def _row(self, lane: int, task: int, attempt: int, value: Any) -> OutcomeRow:
        data = encode_as(self._job.codec, value)
        columns = task, COMPLETED, attempt, data, None, clock.now(), 0.0, self._worker(lane)
        return OutcomeRow.with_checksum(self._job.batch, *columns)

    def _failure(self, lane: int, task: int, attempt: int, error: BaseException) -> Failure:
        info = error_info(error).encode()
        columns = task, FAILED, attempt, None, info, clock.now(), 0.0, self._worker(lane)
        row = OutcomeRow.with_checksum(self._job.batch, *columns)
        return Failure(row, class_names(error))

    def _worker(self, lane: int) -> int:
        return self._job.engine << 16 | lane
