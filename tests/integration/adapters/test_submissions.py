"""An engine that stays: it waits when there is nothing to do, and starts what comes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from polling import eventually
from sample_tasks import notes, say

import runyard as ry
from runyard.attempt.lane_status import LaneStatusFile
from runyard.attempt.wire import Job
from runyard.backends.threads import ThreadsBackend
from runyard.errors import StoreError
from runyard.schedule.ending import End
from runyard.schedule.engine import Engine
from runyard.schedule.registration import Start, register
from runyard.schedule.submissions import Submissions
from runyard.spec.batch import ListedTask, encode_listed, tasks
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import COMPLETED
from runyard.spec.task import Target, Task
from runyard.store.stored_batch import StoredBatch


def listed(folder: Path, x: int, *, name: str = "noted", priority: int = 1) -> ListedTask:
    target = Target("import", f"sample_tasks:{name}")
    params = {"folder": str(folder), "x": x}
    return ListedTask(target, params, None, (), priority, None, None)


class Lanes(ThreadsBackend):
    """One that may take its time to open."""

    is_ready: Callable[[], bool] = staticmethod(lambda: True)

    def open(self, job: Job, lane_status: LaneStatusFile) -> None:
        assert eventually(self.is_ready)
        super().open(job, lane_status)


class Stay:
    """A batch of one task, and an engine that stays with it."""

    def __init__(self, yard: ry.Yard, folder: Path, **settings: object) -> None:
        first = Task("sample_tasks:noted", {"folder": str(folder), "x": 0})
        batch = tasks([first], name="stays")
        with yard.store.transaction() as tx:
            self.recorded = StoredBatch(register(tx, batch, root=str(folder), code={}).row)
        self.rows: list[OutcomeRow] = []
        self.submissions = Submissions(1, ended=lambda row, _: self.rows.append(row), **settings)  # type: ignore[arg-type]
        self.backend = Lanes(1)
        self.engine = Engine(
            yard.store, Start(self.recorded), self.backend, yard.folder, yard.bus.publish,
            submissions=self.submissions,
        )  # fmt: skip
        self.end: End | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.end = self.engine.run()
        except BaseException as error:
            self.error = error


@contextmanager
def staying(yard: ry.Yard, folder: Path, **settings: object) -> Iterator[Stay]:
    stay = Stay(yard, folder, **settings)
    stay.thread.start()
    try:
        yield stay
    finally:
        stay.submissions.close()
        stay.thread.join(30)
        assert not stay.thread.is_alive()


def test_it_waits_for_more_until_it_is_told(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path) as stay:
        assert eventually(lambda: yard.results("stays").stats.completed == 1)
        for x in (1, 2, 3):
            assert stay.submissions.add(listed(tmp_path, x)) == x
            assert eventually(lambda x=x: len(stay.rows) == x + 1)
        assert stay.thread.is_alive()
    assert stay.end is End.FINISHED
    assert notes(tmp_path) == ["0", "1", "2", "3"]
    result = yard.results("stays")
    assert list(result.values()) == [0, 1, 2, 3]
    assert result.digest is not None


def test_tasks_are_recorded_before_the_first_worker_is_there(yard: ry.Yard, tmp_path: Path) -> None:
    stay = Stay(yard, tmp_path)
    stay.backend.is_ready = lambda: yard.results("stays").stats.total == 2
    stay.submissions.add(listed(tmp_path, 1))
    stay.submissions.close()
    stay.thread.start()
    stay.thread.join(30)
    assert (stay.end, stay.error) == (End.FINISHED, None)
    assert sorted(notes(tmp_path)) == ["0", "1"]


def test_what_others_add_to_the_store_is_found(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path) as stay:
        for x in (1, 2):
            task = listed(tmp_path, x)
            with yard.store.transaction() as tx:
                tx.add_tasks(stay.recorded.id, [(None, 1, encode_listed(task), ())])
            if x == 2:
                stay.submissions.nudge()
            assert eventually(lambda x=x: notes(tmp_path)[-1:] == [str(x)])
    assert stay.end is End.FINISHED


def test_it_can_be_kept_to_what_is_handed_in(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path, only=True) as stay:
        stay.submissions.add(listed(tmp_path, 5))
        assert eventually(lambda: stay.rows)
    assert notes(tmp_path) == ["5"]
    assert yard.results("stays").stats.queued == 1


def test_handed_in_tasks_go_by_priority(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path, only=True) as stay:
        stay.submissions.add(listed(tmp_path, 1, name="held"))
        assert eventually(lambda: notes(tmp_path) == ["1"])
        for x in (2, 3, 4):
            stay.submissions.add(listed(tmp_path, x, priority=x))
        assert eventually(lambda: yard.results("stays").stats.total == 5)
        say(str(tmp_path), "release")
    assert notes(tmp_path) == ["1", "4", "3", "2"]


def test_what_returns_may_stay_unrecorded(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path, only=True, keep_values=False) as stay:
        stay.submissions.add(listed(tmp_path, 7))
        assert eventually(lambda: stay.rows)
    assert stay.rows[0].value is not None
    with yard.store.snapshot() as view:
        (row,) = view.outcomes(stay.recorded.id)
    assert (row.task, row.status, row.value) == (1, COMPLETED, None)


def test_stop_ends_it_and_leaves_the_rest(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path) as stay:
        assert eventually(lambda: yard.results("stays").stats.completed == 1)
        assert yard.stop("stays") == 1
        assert eventually(lambda: not stay.thread.is_alive())
    assert stay.end is End.STOPPED


def test_abort_ends_what_runs_and_cancels_the_rest(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path, only=True) as stay:
        stay.submissions.add(listed(tmp_path, 1, name="held"))
        stay.submissions.add(listed(tmp_path, 2))
        assert eventually(lambda: notes(tmp_path) == ["1"])
        stay.submissions.close(abort=True)
        assert eventually(lambda: not stay.thread.is_alive())
        say(str(tmp_path), "release")
    assert stay.end is End.CANCELLED
    assert yard.results("stays").stats.cancelled == 3


def test_two_processes_cannot_number_tasks_at_once(yard: ry.Yard, tmp_path: Path) -> None:
    with staying(yard, tmp_path) as stay:
        assert eventually(lambda: yard.results("stays").stats.completed == 1)
        with yard.store.transaction() as tx:
            tx.add_tasks(stay.recorded.id, [(None, 1, encode_listed(listed(tmp_path, 1)), ())])
        stay.submissions.add(listed(tmp_path, 2))
        assert eventually(lambda: not stay.thread.is_alive())
    with pytest.raises(StoreError, match="another process added tasks"):
        raise stay.error or AssertionError("it went on")
