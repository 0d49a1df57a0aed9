"""Two workers on one PostgreSQL: enqueue, run and record no-op tasks, beside procrastinate."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Figure, at_least
from benchmarks.rounds import ROOT, fresh, in_rounds, spread
from benchmarks.servers import postgres
from benchmarks.work import noop

WORKERS = 2
TASKS = 20_000
JOBS = 2_000
"""What procrastinate gets: its time a job does not depend on how many there are."""

LONGEST = 120.0


def measure(rounds: int) -> list[Figure]:
    """No-op tasks through two workers that share a PostgreSQL; procrastinate's jobs likewise."""
    contestants: dict[str, Callable[[int], dict[str, float]]] = {
        "procrastinate": lambda _: fresh(f"{__name__}:theirs"),
        "described": lambda _: fresh(f"{__name__}:ours", listed=False),
        "listed": lambda _: fresh(f"{__name__}:ours", listed=True),
    }
    measured = in_rounds("shared", contestants, rounds)
    rates = {name: [each["rate"] for each in found] for name, found in measured.items()}
    theirs = rates["procrastinate"]
    found = []
    for name, what, target in (
        ("described", f"{TASKS:,} no-op tasks of a described batch", at_least(50)),
        ("listed", f"{TASKS:,} no-op tasks with a row each", None),
    ):
        ratio = median(a / b for a, b in zip(rates[name], theirs, strict=True))
        note = (
            f"{median(rates[name]):,.0f}/s, procrastinate {median(theirs):,.0f}/s; "
            f"{spread(rates[name], theirs)}"
        )
        measure = f"{what}, enqueued, run, recorded; of procrastinate's rate"
        found.append(Figure("shared", measure, ratio, "×", target, note))
    return found


def ours(folder: str, *, listed: bool) -> dict[str, float]:
    """Tasks a second through two `runyard worker` processes that are up and wait."""
    import runyard as ry

    def batch(name: str, tasks: int) -> Any:
        if listed:
            calls = [ry.Task(noop, {"i": i}) for i in range(tasks)]
            return ry.tasks(calls, name=name, seed=1)
        return ry.grid(noop, i=range(tasks), name=name, seed=1)

    with postgres() as url, ry.Yard(url) as yard:
        words = [sys.executable, "-m", "runyard", "worker", "--forever", "--workers", "1"]
        with _processes(words, RUNYARD_YARD=url, RUNYARD_FILES=folder):
            yard.submit(batch("warm", 200))
            _until(lambda: yard.results("warm").stats.completed == 200)
            begin = time.perf_counter()
            yard.submit(batch("measured", TASKS))
            _until(lambda: yard.results("measured").stats.completed == TASKS)
            seconds = time.perf_counter() - begin
    return {"rate": TASKS / seconds}


def theirs(folder: str) -> dict[str, float]:
    """Jobs a second through two procrastinate workers that are up and wait."""
    import psycopg

    with postgres() as url:
        os.environ["BENCH_POSTGRES"] = url
        from benchmarks.shared_peer import app

        with app.open(), psycopg.connect(url, autocommit=True) as connection:
            app.schema_manager.apply_schema()

            def done() -> int:
                query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
                found: Any = connection.execute(query).fetchone()
                return int(found[0])

            task = app.tasks["noop"]
            words = [sys.executable, "-m", "benchmarks.shared_peer"]
            with _processes(words, BENCH_POSTGRES=url):
                task.batch_defer(*({"i": i} for i in range(50)))
                _until(lambda: done() == 50)
                begin = time.perf_counter()
                task.batch_defer(*({"i": i} for i in range(JOBS)))
                _until(lambda: done() == 50 + JOBS)
                seconds = time.perf_counter() - begin
    return {"rate": JOBS / seconds}


@contextmanager
def _processes(words: list[str], **variables: str) -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere:
        processes = [
            subprocess.Popen(
                words, cwd=ROOT, env={**os.environ, **variables}, stdout=nowhere, stderr=nowhere
            )
            for _ in range(WORKERS)
        ]
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                process.kill()


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"nothing came of it in {LONGEST:.0f} s")
        time.sleep(0.01)
