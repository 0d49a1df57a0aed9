"""Engines paused in the middle of a transaction in PostgreSQL: their locks don't outlive leases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chaos_run import HERE, SOURCE
from databases import postgres_url
from polling import eventually
from sample_tasks import double
from shared_workers import LEASE, Crowd, crowd

import runyard as ry
from runyard.store.base import Transaction
from runyard.store.rows import Claim

BATCH = ry.grid(double, x=range(100), seed=1, name="b")


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RUNYARD_FILES", str(tmp_path / "files"))
    return postgres_url()


@contextmanager
def paused_writer(url: str) -> Iterator[subprocess.Popen[str]]:
    """An engine that holds locks on the batch `b` and all its tasks, and has stopped itself."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "paused_writer.py"), url, "b"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "RUNYARD_LEASE": str(LEASE)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "paused\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_what_an_engine_locked_before_it_was_paused_in_a_statement_is_taken_over(
    url: str,
) -> None:
    with ry.Yard(url) as yard:
        batch = yard.recorded(yard.submit(BATCH)).id
        with paused_writer(url) as paused:
            taken: list[Claim] = []

            def take(tx: Transaction) -> Claim | None:
                engine = tx.sign_on("there", os.getpid(), "processes", 1)
                return tx.claim(batch, engine, 1000, listed=False)

            def is_taken() -> bool:
                claim = yard.store.write(take)
                taken.extend([] if claim is None else [claim])
                return bool(taken)

            assert eventually(is_taken, seconds=60)
            assert [task for low, high in taken[0].ranges for task in range(low, high)] == list(
                range(100)
            )
            paused.send_signal(signal.SIGCONT)
            assert paused.communicate(timeout=60)[0].split("\n") == ["ended by others", "lost", ""]


def test_who_waits_for_locks_of_a_paused_engine_gets_them_when_its_lease_has_run_out(
    url: str,
) -> None:
    """Nothing here asks whether the engine lives: the first thing it does is to wait."""
    with ry.Yard(url) as yard:
        batch = yard.recorded(yard.submit(BATCH)).id
        with paused_writer(url):
            yard.store.write(lambda tx: tx.update_batch(batch, priority=3))
            assert yard.recorded("b").row.priority == 3


def test_an_engine_that_is_paused_and_lives_keeps_its_locks(url: str) -> None:
    with ry.Yard(url) as yard, ry.Yard(url) as other:
        batch = yard.recorded(yard.submit(BATCH)).id
        with yard.store.transaction() as tx:
            yard.store.hold_life(tx.sign_on("here", os.getpid(), "serial", 1))
            tx.update_batch(batch, seconds=1.0)
            other.store._leases._end_overdue()  # type: ignore[attr-defined]
        assert yard.recorded("b").row.seconds == 1.0


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Crowd]:
    with crowd(tmp_path, postgres_url()) as found:
        yield found


def test_workers_finish_a_batch_beside_one_that_is_paused_before_its_commit(
    workers: Crowd,
) -> None:
    workers.submit(200)
    paused = workers.worker(pace=0.005, RUNYARD_FAULT="commit:6:stop")
    state = Path(f"/proc/{paused.pid}/stat")
    assert eventually(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", seconds=60)
    other = workers.worker(pace=0.001)
    assert other.wait(60) == 0, other.stderr.read()
    assert len(workers.events(1, "BatchStarted")) < 10
    with ry.Yard(workers.url) as yard:
        assert yard.results("chaos").stats.done == 200
    paused.send_signal(signal.SIGCONT)
    assert paused.wait(60) == 0, paused.stderr.read()
