"""What tasks print: little of it in the store, much of it in files, all of it with its attempt."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from running import output
from sample_tasks import double, prints, prints_much

import runyard as ry
from runyard.backends.serial import SerialBackend
from runyard.errors import StoreFull
from runyard.reports.printed import TaskOutput
from runyard.schedule.commit import Committer
from runyard.schedule.mailbox import OutcomeGroup, PendingWrites
from runyard.schedule.ready_queue import HeldClaim
from runyard.schedule.run import Run
from runyard.spec.outcome import OutcomeRow, Printed, Rows
from runyard.spec.status import COMPLETED
from runyard.store import open_store
from runyard.store.stored_batch import StoredBatch

LONG = 70 * 1024


def files(yard: ry.Yard) -> int:
    return sum(1 for _ in yard.folder.rglob("*"))


@pytest.mark.parametrize("backend", ["processes", "threads", "async", "serial"])
def test_two_thousand_tasks_that_print_leave_no_more_files_than_silent_ones(
    yard: ry.Yard, backend: str
) -> None:
    yard.run(ry.grid(double, x=range(10), name="silent"), backend=backend, workers=2)
    before = files(yard)
    result = yard.run(ry.grid(prints, x=range(2000), name="loud"), backend=backend, workers=2)
    assert files(yard) <= before + 2  # the batch's folder and its events
    for task in (0, 1, 777, 1999):
        assert yard.printed(result.name, task) == {
            0: TaskOutput(f"out {task}\nmore\n", f"err {task}\n")
        }
    with yard.store.snapshot() as view:
        batch = yard.recorded("loud").id
        assert sum(len(view.printed(batch, task)) for task in range(2000)) == 2000
        silent = yard.recorded("silent").id
        assert not any(view.printed(silent, task) for task in range(10))


def test_only_the_long_stream_goes_into_a_file(yard: ry.Yard) -> None:
    def mixed(x: int) -> None:
        print("y" * LONG)
        print("short", file=sys.stderr)

    result = yard.run(ry.grid(mixed, x=[1, 2]), workers=2)
    folder = yard.batch_folder(result.name) / "tasks"
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*/*/*")) == [
        "0/0/stdout", "1/0/stdout",
    ]  # fmt: skip
    assert yard.printed(result.name, 1) == {0: TaskOutput("y" * LONG + "\n", "short\n")}


def test_a_task_that_failed_after_a_long_output_starts_again_without_it(
    yard: ry.Yard, tmp_path: Path
) -> None:
    def mended(folder: str) -> None:
        if not Path(folder, "mended").exists():
            print("y" * LONG)
            raise ValueError
        print("well")

    batch = ry.batch(mended, params={"folder": str(tmp_path)}, name="b")
    result = yard.run(batch, backend="serial", retries=1, backoff=0.001)
    assert [len(output(yard, result, 0, attempt=n)) for n in (0, 1)] == [LONG + 1] * 2
    (tmp_path / "mended").touch()
    yard.retry("b")
    assert yard.printed("b", 0) == {}
    yard.run(batch, backend="serial")
    assert yard.printed("b", 0) == {0: TaskOutput("well\n", "")}
    assert not (yard.batch_folder("b") / "tasks" / "0").exists()


def test_what_a_killed_worker_printed_is_there_until_the_task_prints_again(
    yard: ry.Yard, tmp_path: Path
) -> None:
    def dies(x: int, folder: str) -> None:
        died = Path(folder, "died")
        print(f"task {x}, {'again' if died.exists() else 'first'}")
        if x == 1:
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            print("whole")
        if x == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    params = {"folder": str(tmp_path)}
    batch = ry.grid(dies, params=params, x=range(4), name="d")
    result = yard.run(batch, workers=1, crash_attempts=2)
    assert (result.stats.completed, result.stats.failed) == (3, 1)
    assert output(yard, result, 1) == "task 1, again\nwhole\n"
    assert output(yard, result, 2) == "task 2, again\n"
    assert output(yard, result, 3) == "task 3, again\n"


@pytest.mark.parametrize("backend", ["processes", "threads", "async", "serial"])
def test_what_a_command_printed_before_its_limit_is_kept(yard: ry.Yard, backend: str) -> None:
    batch = ry.grid(ry.shell("echo begun {x}; echo why >&2; sleep 60"), x=[1, 2])
    result = yard.run(batch, timeout=1, workers=2, backend=backend)
    assert result.stats.failed == 2
    assert [output(yard, result, n) for n in (0, 1)] == ["begun 1\n", "begun 2\n"]
    assert output(yard, result, 0, "stderr") == "why\n"
    assert [failure.where for failure in result.failures()] == [""]


@pytest.mark.parametrize("backend", ["threads", "async"])
def test_what_a_task_printed_that_was_left_behind_is_kept(
    yard: ry.Yard, backend: str, tmp_path: Path
) -> None:
    def stays(x: int, folder: str) -> None:
        print("begun", x)
        until = time.monotonic() + 60
        while not Path(folder, "release").exists() and time.monotonic() < until:
            time.sleep(0.01)

    batch = ry.grid(stays, params={"folder": str(tmp_path)}, x=[1])
    try:
        result = yard.run(batch, backend=backend, timeout=0.1, workers=1)
    finally:
        (tmp_path / "release").touch()
    assert result.stats.failed == 1
    assert output(yard, result, 0) == "begun 1\n"


def test_what_a_task_printed_that_was_ended_with_its_run_is_kept(yard: ry.Yard) -> None:
    def stays(x: int) -> None:
        print("begun", x)
        time.sleep(60)

    result = yard.run(ry.grid(stays, x=[1], name="s"), deadline=2, workers=1)
    assert (result.end, result.stats.done) == ("deadline", 0)
    assert output(yard, result, 0) == "begun 1\n"


def test_a_fresh_start_and_clear_forget_what_was_printed(yard: ry.Yard) -> None:
    batch = ry.grid(prints_much, size=[1000, LONG], name="b")
    yard.run(batch, backend="serial")
    yard.run(ry.grid(double, x=[1, 2], name="b"), backend="serial", fresh=True)
    assert [yard.printed("b", task) for task in (0, 1)] == [{}, {}]
    assert not (yard.batch_folder("b") / "tasks").exists()


# Together with outcomes


def entry(batch: int, held: HeldClaim, task: int) -> OutcomeGroup:
    row = OutcomeRow.with_checksum(batch, task, COMPLETED, 0, b"", None, 1.0, 0.1, 1)
    return OutcomeGroup.of(
        held, Rows.of([row]), is_last=False, printed=[Printed(task, 0, b"out", b"")]
    )


@pytest.fixture
def parts(yard: ry.Yard) -> Any:
    """A store, a batch in it, a committer and a claim of its engine."""
    store = open_store("memory:")
    with store.transaction() as tx:
        name = yard.submit(ry.grid(double, x=range(10)))
        source = yard.recorded(name).row
        columns = {n: getattr(source, n) for n in ("name", "identity", "plan", "options", "code")}
        row = tx.create_batch(**columns, seed="1", root="/", total=10, priority=1)
        engine = tx.sign_on("host", 1, "serial", 1)
        store.acquire_liveness(engine)
        claim = tx.claim(row.id, engine, 10)
        assert claim is not None
    run = Run(store, StoredBatch(row), engine, SerialBackend(1), None, lambda _: None)  # type: ignore[arg-type]
    yield store, row, Committer(run), HeldClaim(claim)
    store.release_liveness(engine)
    store.close()


def test_what_was_printed_is_written_with_the_outcome_or_not_at_all(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, row, committer, held = parts
    waiting = PendingWrites(groups=[entry(row.id, held, 3)])

    def full(*_: object) -> None:
        raise StoreFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr("runyard.store.writing.SqlWriter.batch_by_id", full)
        with pytest.raises(StoreFull):
            committer.commit(waiting, "token", None, unsure=False, followers=False)
    with store.snapshot() as view:
        assert view.printed(row.id, 3) == []
    committer.commit(waiting, "token", None, unsure=False, followers=False)
    with store.snapshot() as view:
        assert view.printed(row.id, 3) == [Printed(3, 0, b"out", b"")]
        assert view.outcome(row.id, 3) is not None


def test_what_a_refused_task_printed_is_refused_with_its_outcome(parts: Any) -> None:
    store, row, committer, held = parts
    with store.transaction() as tx:
        tx.release(held.claim, finished=False)
        assert tx.claim(row.id, 99, 10) is not None  # another engine has it now
        tx.keep_printed(row.id, [Printed(3, 0, b"theirs", b"")])
    late = [
        entry(row.id, held, 3),
        OutcomeGroup.of(held, Rows([]), is_last=False, printed=[Printed(4, 0, b"late", b"")]),
    ]
    done = committer.commit(
        PendingWrites(groups=late), "token", None, unsure=False, followers=False
    )
    assert [each.tasks for each in done.refused] == [[3]]
    with store.snapshot() as view:
        assert view.printed(row.id, 3) == [Printed(3, 0, b"theirs", b"")]
        assert view.printed(row.id, 4) == []
