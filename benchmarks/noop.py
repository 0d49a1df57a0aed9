"""Tasks that do nothing: Runyard, recording each, against peers that record nothing, and huey."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.figures import Figure, Target, at_least, rate
from benchmarks.rounds import fresh, in_rounds, median_ratio, spread

SIZES = (200_000, 20_000)
SELF_CHUNKING = ("joblib auto", "mpire")
CONTESTANTS = {
    "huey on SQLite": "huey_sqlite",
    "futures submit": "futures_submit",
    "futures map, chunks of 1,000": "futures_map",
    "imap_unordered": "pool_single",
    "imap_unordered, chunks of 1,000": "pool_chunked",
    "joblib auto": "joblib_auto",
    "Runyard": "runyard",
    "mpire": "mpire",
}
# One message a task is slow; these show their rate on fewer tasks.
MOST = {"huey on SQLite": 2_000, "futures submit": 20_000, "imap_unordered": 20_000}

Timings = Mapping[str, Sequence[Mapping[str, float]]]


def measure(rounds: int) -> list[Figure]:
    """200,000 and 20,000 no-op tasks, cold and warm, against peers."""
    figures: list[Figure] = []
    for size in SIZES:
        timings = in_rounds(f"noop {size:,}", _contestants(size), rounds)
        for state in ("cold", "warm"):
            figures += _figures(size, state, _rates(timings, size, state))
    return figures


def _contestants(size: int) -> dict[str, Callable[[int], dict[str, float]]]:
    def contestant(name: str, function: str) -> Callable[[int], dict[str, float]]:
        return lambda _: fresh(f"benchmarks.peers:{function}", count=_count(name, size))

    return {name: contestant(name, function) for name, function in CONTESTANTS.items()}


def _count(name: str, size: int) -> int:
    return min(size, MOST.get(name, size))


def _rates(timings: Timings, size: int, state: str) -> dict[str, list[float]]:
    return {
        name: [_count(name, size) / timing[state] for timing in measured]
        for name, measured in timings.items()
    }


def _figures(size: int, state: str, rates: Mapping[str, Sequence[float]]) -> list[Figure]:
    ours = rates["Runyard"]
    best = [max(pair) for pair in zip(*(rates[name] for name in SELF_CHUNKING), strict=True)]

    def against(name: str, theirs: Sequence[float], target: Target | None = None) -> Figure:
        note = f"{rate(median(ours))} against {rate(median(theirs))}, {spread(ours, theirs)}"
        label = f"{size:,} {state}: Runyard / {name}"
        return Figure("noop", label, median_ratio(ours, theirs), target=target, note=note)

    # Only the large batch has a target; the small one shows what starting and recording cost.
    floor = at_least(1.0) if size == SIZES[0] else None
    gates = [
        against("faster of joblib, mpire", best, floor),
        against("huey on SQLite", rates["huey on SQLite"], at_least(30.0)),
    ]
    shown = [name for name in rates if name not in ("Runyard", "huey on SQLite")]
    return gates + [against(name, rates[name]) for name in shown]
