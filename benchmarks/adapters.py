"""scikit-learn on joblib's `runyard` backend beside loky, and a call through `runyard.Executor`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.figures import Figure, at_most
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread
from benchmarks.work import noop

WORKERS = 2
CALLS = 300
MAP = 5000
TREES = 12
TURNS = 5
BACKENDS = ("loky", "runyard")
SEARCHES = {"GridSearchCV": "grid_search", "cross_val_score": "cross_validation"}

Answer = dict[str, Any]


def measure(rounds: int) -> list[Figure]:
    """Fits of 20 ms and more on loky and on Runyard; a call through each executor."""
    fits = {what: _fits(how) for what, how in SEARCHES.items()}
    calls = {name: _calls(name) for name in ("standard", "runyard")}
    measured = in_rounds("adapters", fits | calls, rounds)
    found = [figure for what in SEARCHES for figure in _fit_figures(what, measured[what])]
    return found + _call_figures(measured)


def grid_search() -> list[float]:
    """Scores of a grid of small forests."""
    from sklearn.model_selection import GridSearchCV

    forest, features, classes = _problem()
    grid = {"max_depth": [3, 5, 7, 9, 11], "min_samples_leaf": [1, 2, 4, 8]}
    search = GridSearchCV(forest, grid, cv=5, refit=False).fit(features, classes)
    return [float(score) for score in search.cv_results_["mean_test_score"]]


def cross_validation() -> list[float]:
    """Scores of one small forest on many splits."""
    from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score

    forest, features, classes = _problem()
    splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=16, random_state=0)
    return [float(score) for score in cross_val_score(forest, features, classes, cv=splits)]


def fits(folder: str, how: str) -> Answer:
    """Searches by turns on warm workers of both backends, and what one fit takes here.

    Two searches that follow one another meet the same machine; two processes a minute apart do not.
    """
    import joblib

    import runyard  # noqa: F401  which makes its backend known

    search = {"grid_search": grid_search, "cross_validation": cross_validation}[how]
    os.chdir(folder)
    answer: Answer = {backend: {"seconds": [], "used": []} for backend in BACKENDS}
    for turn in range(-1, TURNS):
        for backend in BACKENDS if turn % 2 else reversed(BACKENDS):
            with joblib.parallel_config(backend, n_jobs=WORKERS):
                used, begin = _processor_seconds(), time.perf_counter()
                scores = search()
                seconds, used = time.perf_counter() - begin, _processor_seconds() - used
            assert scores == answer.setdefault("scores", scores)
            if turn >= 0:  # the first turn starts the workers
                answer[backend]["seconds"].append(seconds)
                answer[backend]["used"].append(used)
    return answer | {"one": _one_fit()}


def calls(folder: str, name: str) -> Answer:
    """Milliseconds for one call after another, and microseconds a call in a map of no-ops."""
    if name == "runyard":
        from runyard import Executor as Pool
    else:
        from concurrent.futures import ProcessPoolExecutor as Pool  # type: ignore[assignment]
    os.chdir(folder)
    with Pool(WORKERS) as pool:
        list(pool.map(noop, range(50)))
        single = []
        for number in range(CALLS):
            begin = time.perf_counter()
            pool.submit(noop, number).result()
            single.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        list(pool.map(noop, range(MAP)))
        mapped = time.perf_counter() - begin
    return {"single": 1000 * median(single), "mapped": 1e6 * mapped / MAP}


def _problem() -> tuple[Any, Any, Any]:
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    features, classes = make_classification(1500, 20, n_informative=8, random_state=0)
    return RandomForestClassifier(n_estimators=TREES, random_state=0), features, classes


def _processor_seconds() -> float:
    """What this process and everything below it has used; a busy machine does not change it."""
    import psutil

    me = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (me, *me.children(recursive=True)))


def _one_fit() -> float:
    forest, features, classes = _problem()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        forest.fit(features, classes)
        times.append(time.perf_counter() - begin)
    return min(times)


def _fits(how: str) -> Callable[[int], Answer]:
    return lambda _: fresh(f"{__name__}:fits", how=how)


def _calls(name: str) -> Callable[[int], Answer]:
    return lambda _: fresh(f"{__name__}:calls", name=name)


def _fit_figures(what: str, answers: list[Answer]) -> list[Figure]:
    one = min(answer["one"] for answer in answers)
    found = []
    for field, measure, target in (
        ("seconds", f"time, of loky's; 1 fit {1000 * one:.0f} ms, same scores", at_most(1.10)),
        ("used", "processor time, of loky's", None),
    ):
        below, above = ([n for a in answers for n in a[side][field]] for side in BACKENDS)
        note = f"{median(above):.2f} s, loky {median(below):.2f} s; {spread(above, below)}"
        ratio = median_ratio(above, below)
        found.append(Figure("adapters", f"{what}: {measure}", ratio, "×", target, note))
    return found


def _call_figures(measured: dict[str, list[Answer]]) -> list[Figure]:
    found = []
    for field, unit, what in (
        ("single", "ms", "one call after another, of ProcessPoolExecutor's time"),
        ("mapped", "µs", f"map of {MAP:,} no-ops, of ProcessPoolExecutor's time"),
    ):
        ours, theirs = ([a[field] for a in measured[name]] for name in ("runyard", "standard"))
        note = f"{median(ours):.2f} {unit} a call, theirs {median(theirs):.2f} {unit}"
        found.append(Figure("adapters", what, median_ratio(ours, theirs), "×", None, note))
    return found
