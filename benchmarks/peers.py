"""No-op batches on Runyard and on its peers, each with two workers and its own defaults.

Every function runs the batch twice in a fresh interpreter. *Cold* is the first time, with the
import of the library and the start of the workers; *warm* is the second, with workers at hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.work import noop

WORKERS = 2
HAND_CHUNK = 1000


def runyard(count: int, folder: str) -> dict[str, float]:
    """Runyard, every outcome recorded in a fresh yard."""
    started = time.perf_counter()
    import runyard as ry

    yards = iter(("first", "second"))

    def batch() -> int:
        grid = ry.grid(noop, i=range(count), name="noop")
        yard = Path(folder, next(yards))
        result = ry.run(grid, backend="processes", workers=WORKERS, yard=yard, progress=False)
        return int(result.stats.completed)

    return _cold_and_warm(started, batch, count)


def joblib_auto(count: int, folder: str) -> dict[str, float]:
    """joblib, which sizes its batches by itself."""
    started = time.perf_counter()
    from joblib import Parallel, delayed

    def batch() -> int:
        return len(Parallel(n_jobs=WORKERS)(delayed(noop)(i) for i in range(count)))

    return _cold_and_warm(started, batch, count)


def mpire(count: int, folder: str) -> dict[str, float]:
    """mpire, which sizes its chunks by itself."""
    started = time.perf_counter()
    from mpire.pool import WorkerPool

    with WorkerPool(n_jobs=WORKERS, keep_alive=True) as pool:
        return _cold_and_warm(started, lambda: len(pool.map_unordered(noop, range(count))), count)


def futures_submit(count: int, folder: str) -> dict[str, float]:
    """concurrent.futures, one message a task."""
    started = time.perf_counter()
    from concurrent.futures import ProcessPoolExecutor, as_completed

    with ProcessPoolExecutor(WORKERS) as pool:

        def batch() -> int:
            submitted = [pool.submit(noop, i) for i in range(count)]
            return sum(1 for _ in as_completed(submitted))

        return _cold_and_warm(started, batch, count)


def futures_map(count: int, folder: str) -> dict[str, float]:
    """concurrent.futures, chunked by hand."""
    started = time.perf_counter()
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as pool:

        def batch() -> int:
            return sum(1 for _ in pool.map(noop, range(count), chunksize=HAND_CHUNK))

        return _cold_and_warm(started, batch, count)


def pool_single(count: int, folder: str) -> dict[str, float]:
    """multiprocessing, one message a task."""
    return _pool(count, chunk=1)


def pool_chunked(count: int, folder: str) -> dict[str, float]:
    """multiprocessing, chunked by hand."""
    return _pool(count, chunk=HAND_CHUNK)


def huey_sqlite(count: int, folder: str) -> dict[str, float]:
    """huey on SQLite: enqueue, then consume until every result is stored."""
    started = time.perf_counter()
    from huey import SqliteHuey

    queue = SqliteHuey(filename=str(Path(folder, "huey.db")), store_none=True)
    queued = queue.task()(noop)
    for i in range(count):
        queued(i)
    consumer = queue.create_consumer(workers=WORKERS, worker_type="process", periodic=False)
    consumer.start()
    while queue.result_count() < count:
        time.sleep(0.005)
    seconds = time.perf_counter() - started
    consumer.stop(graceful=True)
    return {"cold": seconds, "warm": seconds}


def _pool(count: int, chunk: int) -> dict[str, float]:
    started = time.perf_counter()
    from multiprocessing import Pool

    with Pool(WORKERS) as pool:

        def batch() -> int:
            return sum(1 for _ in pool.imap_unordered(noop, range(count), chunksize=chunk))

        return _cold_and_warm(started, batch, count)


def _cold_and_warm(started: float, batch: Callable[[], int], count: int) -> dict[str, float]:
    assert batch() == count
    cold = time.perf_counter() - started
    started = time.perf_counter()
    assert batch() == count
    return {"cold": cold, "warm": time.perf_counter() - started}
