"""One worker dies by SIGKILL in mid-batch: how many tasks does that cost?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from multiprocessing import Pool
from multiprocessing import TimeoutError as PoolTimeout
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, at_most
from benchmarks.rounds import fresh, in_rounds
from benchmarks.work import die_once

TASKS = 400
VICTIM = 120
WORKERS = 4
SILENCE = 5.0
CONTESTANTS = {
    "ProcessPoolExecutor": "futures",
    "multiprocessing.Pool": "pool",
    "loky executor": "loky",
    "joblib.Parallel": "joblib_parallel",
    "Runyard": "runyard",
}

Answer = dict[str, str | int]


def measure(rounds: int) -> list[Figure]:
    """Share of a batch that fails when one of four workers is killed."""
    answers = in_rounds("killed", {name: _run(name) for name in CONTESTANTS}, rounds)
    return [_figure(name, measured) for name, measured in answers.items()]


def runyard(folder: str) -> Answer:
    """The victim's worker is replaced and the victim runs again."""
    import runyard as ry

    grid = ry.grid(die_once, i=range(TASKS), victim=[VICTIM], folder=[folder], name="killed")
    yard = Path(folder, "yard")
    result = ry.run(grid, backend="processes", workers=WORKERS, yard=yard, progress=False)
    return _answer(folder, int(result.stats.completed))


def futures(folder: str) -> Answer:
    """The standard library's executor, one future a task."""
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as pool:
        return _survivors(folder, [pool.submit(die_once, i, VICTIM, folder) for i in range(TASKS)])


def loky(folder: str) -> Answer:
    """The executor that joblib builds on, one future a task."""
    from joblib.externals.loky import get_reusable_executor

    pool = get_reusable_executor(max_workers=WORKERS)
    return _survivors(folder, [pool.submit(die_once, i, VICTIM, folder) for i in range(TASKS)])


def joblib_parallel(folder: str) -> Answer:
    """joblib's own call, which returns everything or nothing."""
    from joblib import Parallel, delayed

    tasks = (delayed(die_once)(i, VICTIM, folder) for i in range(TASKS))
    try:
        return _answer(folder, len(Parallel(n_jobs=WORKERS)(tasks)))
    except Exception as error:
        return _answer(folder, 0, f"raises {type(error).__name__}")


def pool(folder: str) -> Answer:
    """The standard library's pool, which waits for ever for what the dead worker held."""
    with Pool(WORKERS) as workers:
        task = partial(die_once, victim=VICTIM, folder=folder)
        results = workers.imap_unordered(task, range(TASKS))
        done = 0
        try:
            while done < TASKS:
                results.next(timeout=SILENCE)
                done += 1
        except PoolTimeout:
            return _answer(folder, done, "never returns")
        return _answer(folder, done)


def _answer(folder: str, done: int, ends: str = "returns") -> Answer:
    assert Path(folder, "killed").exists(), "no worker was killed"
    return {"done": done, "ends": ends}


def _survivors(folder: str, tasks: Iterable[Future[int]]) -> Answer:
    errors = [task.exception() for task in tasks]
    failed = [error for error in errors if error is not None]
    ends = f"raises {type(failed[0]).__name__}" if failed else "returns"
    return _answer(folder, len(errors) - len(failed), ends)


def _run(name: str) -> Callable[[int], Answer]:
    return lambda _: fresh(f"{__name__}:{CONTESTANTS[name]}")


def _figure(name: str, answers: list[Answer]) -> Figure:
    lost = [TASKS - int(answer["done"]) for answer in answers]
    return Figure(
        "killed",
        f"{name}: share of {TASKS} tasks lost to one SIGKILL",
        100 * median(lost) / TASKS,
        "%",
        at_most(0) if name == "Runyard" else None,
        f"{median(lost):.0f} of {TASKS}, {answers[0]['ends']}",
    )
