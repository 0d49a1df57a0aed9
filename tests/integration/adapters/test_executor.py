"""`runyard.Executor` does what the standard library's does, and survives what that one does not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, as_completed
from pathlib import Path

import pytest
from polling import eventually
from sample_calls import Special, die_once, raise_special, raise_unpicklable
from sample_tasks import held, say, wait_for

import runyard as ry
from runyard.adapters.executor_engine import scratch_yard
from runyard.errors import (
    ExecutorClosed,
    NotEncodable,
    TaskError,
    TaskTimeout,
    UsageError,
    WorkerDied,
)


@pytest.fixture(scope="module")
def pool() -> Iterator[ry.Executor]:
    with ry.Executor(2) as executor:
        yield executor


def test_a_future_brings_what_the_function_returns(pool: ry.Executor) -> None:
    assert pool.submit(pow, 2, 5).result() == 32
    assert pool.submit(int, "ff", base=16).result() == 255


def test_lambdas_closures_and_local_classes_travel(pool: ry.Executor) -> None:
    step = 3

    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    found = pool.submit(lambda point: Point(point.x + step), Point(4)).result()
    assert isinstance(found, Point)
    assert found.x == 7


def test_values_that_no_record_could_hold_come_back(pool: ry.Executor) -> None:
    assert pool.submit(lambda: {1, 2}).result() == {1, 2}
    assert pool.submit(lambda: None).result() is None


def test_a_coroutine_function_gets_a_loop(pool: ry.Executor) -> None:
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    assert pool.submit(later, 1).result() == 2


def test_map_gives_results_in_order_in_chunks_or_not(pool: ry.Executor) -> None:
    assert list(pool.map(pow, range(40), [2] * 40)) == [x * x for x in range(40)]
    assert list(pool.map(pow, range(40), [2] * 40, chunksize=7)) == [x * x for x in range(40)]
    with pytest.raises(ValueError, match="chunksize"):
        pool.map(pow, [1], [1], chunksize=0)


def test_map_gives_up_at_its_timeout(tmp_path: Path, pool: ry.Executor) -> None:
    results = pool.map(wait_for, [str(tmp_path)], ["release"], timeout=0.01)
    with pytest.raises(TimeoutError):
        next(results)
    say(str(tmp_path), "release")


def test_futures_are_told_apart_as_they_complete(pool: ry.Executor) -> None:
    futures = {pool.submit(abs, -x): x for x in range(30)}
    assert all(future.result() == futures[future] for future in as_completed(futures))


def test_an_error_is_the_original_with_the_workers_trace(pool: ry.Executor) -> None:
    with pytest.raises(Special) as caught:
        pool.submit(raise_special).result()
    assert caught.value.code == 7
    assert "in raise_special" in str(caught.value.__cause__)


def test_an_error_that_cannot_be_sent_is_told(pool: ry.Executor) -> None:
    with pytest.raises(TaskError, match="Unpicklable: it holds a lambda") as caught:
        pool.submit(raise_unpicklable).result()
    assert "in raise_unpicklable" in str(caught.value.__cause__)


def test_what_cannot_be_pickled_is_refused_at_once(pool: ry.Executor) -> None:
    with pytest.raises(UsageError, match="arguments can't be sent"):
        pool.submit(id, threading.Lock())
    with pytest.raises(NotEncodable, match="the value can't be pickled"):
        pool.submit(threading.Lock).result()


def test_a_killed_worker_costs_nobody_anything(tmp_path: Path, pool: ry.Executor) -> None:
    futures = [pool.submit(die_once, str(tmp_path), x) for x in range(3)]
    others = [pool.submit(abs, -x) for x in range(50)]
    assert [future.result() for future in futures] == [0, 1, 2]
    assert [future.result() for future in others] == list(range(50))


def test_a_poison_task_fails_alone(pool: ry.Executor) -> None:
    poison = pool.submit(os._exit, 3)
    others = [pool.submit(abs, -x) for x in range(50)]
    with pytest.raises(WorkerDied, match=r"3 times \(last: exited with code 3\)"):
        poison.result()
    assert [future.result() for future in others] == list(range(50))
    assert pool.submit(abs, -1).result() == 1


def test_a_task_past_its_time_limit_is_ended(tmp_path: Path) -> None:
    with ry.Executor(1, timeout=0.3) as pool:
        with pytest.raises(TaskTimeout):
            pool.submit(wait_for, str(tmp_path), "never").result()
        assert pool.submit(abs, -2).result() == 2


def test_an_error_is_retried_as_often_as_asked(tmp_path: Path) -> None:
    def third_time(folder: str) -> int:
        import pathlib

        tries = len(list(pathlib.Path(folder).iterdir()))
        pathlib.Path(folder, str(tries)).touch()
        if tries < 2:
            raise ValueError(tries)
        return tries

    with ry.Executor(1, retries=2) as pool:
        assert pool.submit(third_time, str(tmp_path)).result() == 2


def test_a_queued_future_can_be_cancelled_and_a_running_one_not(tmp_path: Path) -> None:
    with ry.Executor(1) as pool:
        running = pool.submit(held, str(tmp_path), 1)
        assert eventually(running.running)
        queued = [pool.submit(abs, -x) for x in range(5)]
        assert queued[3].cancel()
        assert not running.cancel()
        say(str(tmp_path), "release")
        assert running.result() == 1
        assert [f.result() for f in queued if f is not queued[3]] == [0, 1, 2, 4]
        with pytest.raises(CancelledError):
            queued[3].result()


def test_shutdown_can_cancel_what_has_not_started(tmp_path: Path) -> None:
    pool = ry.Executor(1)
    running = pool.submit(held, str(tmp_path), 1)
    assert eventually(running.running)
    queued = [pool.submit(abs, -x) for x in range(20)]
    pool.shutdown(wait=False, cancel_futures=True)
    say(str(tmp_path), "release")
    assert running.result() == 1
    assert all(future.cancelled() for future in queued)
    pool.shutdown()


def test_killing_the_workers_ends_what_runs(tmp_path: Path) -> None:
    pool = ry.Executor(2)
    futures = [pool.submit(wait_for, str(tmp_path), "never") for _ in range(4)]
    assert eventually(futures[0].running)
    pool.kill_workers()
    assert all(future.done() for future in futures)
    for future in futures:
        with pytest.raises((CancelledError, ExecutorClosed)):
            future.result()


def test_a_closed_executor_takes_nothing_more() -> None:
    with ry.Executor(1) as pool:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(abs, 1)


def test_an_executor_that_nobody_uses_any_more_closes_by_itself() -> None:
    pool = ry.Executor(1)
    future = pool.submit(abs, -3)
    threads = pool._engine._threads
    del pool
    assert future.result() == 3
    assert eventually(lambda: not any(thread.is_alive() for thread in threads))


def test_a_callback_may_hand_in_the_next_call(pool: ry.Executor) -> None:
    done = threading.Event()
    seen: list[int] = []

    def go_on(future: object) -> None:
        seen.append(future.result())  # type: ignore[attr-defined]
        if len(seen) == 5:
            done.set()
        else:
            pool.submit(abs, -len(seen)).add_done_callback(go_on)

    pool.submit(abs, 0).add_done_callback(go_on)
    assert done.wait(60)
    assert seen == [0, 1, 2, 3, 4]


def test_many_threads_may_hand_in_at_once(pool: ry.Executor) -> None:
    found: dict[int, list[int]] = {}

    def use(number: int) -> None:
        found[number] = list(pool.map(pow, range(50), [number] * 50))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [x**number for x in range(50)] for number in range(4)}


@pytest.mark.parametrize("backend", ["serial", "threads", "async"])
def test_every_backend_serves(backend: str) -> None:
    with ry.Executor(2, backend=backend) as pool:
        assert list(pool.map(pow, range(10), [3] * 10)) == [x**3 for x in range(10)]
        with pytest.raises(Special):
            pool.submit(raise_special).result()


def test_random_numbers_come_from_the_seed_and_differ_by_call() -> None:
    def draw() -> int:
        return int(ry.context().rng.integers(1 << 30))

    with ry.Executor(2, seed=5) as pool:
        first = [pool.submit(draw).result() for _ in range(3)]
    with ry.Executor(1, seed=5) as pool:
        again = [pool.submit(draw).result() for _ in range(3)]
    assert first == again
    assert len(set(first)) == 3


def test_an_executor_without_a_name_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = [result.name for result in scratch_yard().status()]
    with ry.Executor(1) as pool:
        pool.submit(abs, 1).result()
        assert len(scratch_yard().status()) == len(before) + 1
    assert list(tmp_path.iterdir()) == []
    assert [result.name for result in scratch_yard().status()] == before
    with ry.Yard(tmp_path / "yard") as yard:
        with ry.Executor(1, yard=yard) as pool:
            pool.submit(abs, 1).result()
        assert yard.status() == []
        assert list((yard.folder / "run").iterdir()) == []


SCRIPT = """
import runyard as ry

pool = ry.Executor(2)
futures = [pool.submit(lambda x: print("in task", x) or x * x, x) for x in range(4)]
futures[-1].add_done_callback(lambda future: print("last", future.result()))
"""


def test_a_script_without_guard_or_shutdown_finishes_its_tasks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # Unbuffered, two workers would print into each other's lines.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = sorted(done.stdout.split("\n"))
    assert lines == ["", "in task 0", "in task 1", "in task 2", "in task 3", "last 9"]
