"""Workers on one store in PostgreSQL: killed, paused, cut off, with wrong clocks."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chaos_run import full, small
from databases import Server, postgres_url
from polling import eventually
from shared_workers import LEASE, Crowd, crowd, plain_digest

from runyard import Yard

Note = Callable[[str, object], None]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Crowd]:
    with crowd(tmp_path, postgres_url()) as found:
        yield found


def assert_done(workers: Crowd, tasks: int) -> None:
    """Every task has one outcome, and they are those of one process alone."""
    with Yard(workers.url) as yard:
        result = yard.results("chaos")
        stats = result.stats
        failed = len(range(7, tasks, 50))
        assert (stats.completed, stats.failed, stats.cancelled) == (tasks - failed, failed, 0)
        assert [outcome.task for outcome in result.outcomes()] == list(range(tasks))
        assert result.digest == plain_digest(workers.folder, tasks)
        assert list(yard.store.check()) == []
        with yard.store.snapshot() as view:
            assert view.claims(yard.recorded("chaos").id) == []


def test_three_workers_share_a_batch_and_each_does_some_of_it(workers: Crowd) -> None:
    workers.submit(600)
    three = [workers.worker() for _ in range(3)]
    assert [process.wait(60) for process in three] == [0, 0, 0]
    assert_done(workers, 600)
    assert sorted(workers.executions()) == list(range(600))
    for number in range(3):
        ended = workers.events(number, "BatchFinished") + workers.events(number, "BatchStopped")
        assert sum(event["recorded"] for event in ended) > 0, "a worker found nothing to do"


@pytest.mark.parametrize(("kills", "tasks"), [small(3, 600), full(40, 10_000)])
def test_workers_that_are_killed_lose_and_double_nothing(
    workers: Crowd, kills: int, tasks: int
) -> None:
    workers.submit(tasks)
    dice = random.Random(kills)
    alive = [workers.worker() for _ in range(3)]
    for _ in range(kills):
        moment = min(tasks - 1, workers.started() + dice.randrange(tasks // (2 * kills) + 1))
        if not eventually(lambda at=moment: workers.started() >= at, seconds=60):
            break
        victim = alive.pop(dice.randrange(len(alive)))
        victim.kill()
        alive.append(workers.worker())
    assert [process.wait(120) for process in alive] == [0] * len(alive)
    assert_done(workers, tasks)


def test_a_worker_that_was_paused_finds_its_late_results_refused(workers: Crowd) -> None:
    tasks = 300
    workers.submit(tasks)
    paused = workers.worker(pace=0.01)
    assert eventually(lambda: workers.started() >= 20, seconds=60)
    paused.send_signal(signal.SIGSTOP)
    other = workers.worker(pace=0.001)
    assert other.wait(60) == 0
    assert_done(workers, tasks)
    paused.send_signal(signal.SIGCONT)
    assert paused.wait(60) == 0, paused.stderr.read()
    refused = workers.events(0, "ResultsRefused")
    assert refused
    assert all(event["tasks"] for event in refused)
    assert_done(workers, tasks)


@pytest.mark.parametrize("hours", [1, -24])
def test_a_clock_that_is_off_changes_nothing(workers: Crowd, hours: int, tmp_path: Path) -> None:
    """A wrong clock in the engine and in all of its processes."""
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "sitecustomize.py").write_text(
        f"import time\n_true = time.time\ntime.time = lambda: _true() + {3600 * hours}\n"
    )
    tasks = 300
    workers.submit(tasks)
    path = {"PYTHONPATH": f"{wrong}:{Path(__file__).parent.parent / 'helpers'}"}
    off = workers.worker(pace=0.005, **path)
    right = workers.worker(pace=0.005)
    assert eventually(lambda: workers.started() >= 50, seconds=60)
    off.kill()
    again = workers.worker(pace=0.005, **path)
    assert [process.wait(60) for process in (right, again)] == [0, 0]
    assert_done(workers, tasks)
    for number in (0, 1, 2):
        assert workers.events(number, "ResultsRefused") == []


@pytest.mark.parametrize(("seconds", "tasks"), [small(8, 1500), full(60, 12_000)])
def test_a_server_that_restarts_again_and_again_loses_nothing(
    tmp_path: Path, measured: Note, seconds: int, tasks: int
) -> None:
    server = Server()
    try:
        with crowd(tmp_path, server.url) as workers:
            workers.submit(tasks)
            three = [workers.worker(pace=0.01) for _ in range(3)]
            assert eventually(lambda: all(map(workers.is_at_work, range(3))), seconds=60)
            until, restarts = time.monotonic() + seconds, 0
            while time.monotonic() < until and workers.started() < tasks:
                server.stop()
                server.start()
                restarts += 1
                seen = workers.started()
                eventually(lambda at=seen: workers.started() > at + 100, seconds=LEASE)
            ends = [process.wait(120) for process in three]
            assert ends == [0, 0, 0], [process.stderr.read() for process in three]
            assert_done(workers, tasks)
            measured("restarts", restarts)
    finally:
        server.remove()
