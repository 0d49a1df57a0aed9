"""The agent's queue: adding, draining, many at once, and looking at a long queue."""

from __future__ import annotations

import asyncio
import enum
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.rounds import ROOT, fresh, in_rounds, median_ratio, spread

FEW, MANY = 10_000, 100_000
DRAINED = 100_000
HUEY = 2_000
AT_ONCE = 1_000
LONGEST = 300.0


def measure(rounds: int) -> list[Figure]:
    """An agent's queue against a list that is sorted on every add, and against huey."""
    here = __name__
    contestants: dict[str, Callable[[int], dict[str, float]]] = {
        "adding": lambda _: fresh(f"{here}:adding"),
        "sorting": lambda _: fresh(f"{here}:sorting"),
        "draining": lambda _: fresh(f"{here}:draining"),
        "huey": lambda _: fresh("benchmarks.peers:huey_sqlite", count=HUEY),
        "at once": lambda _: fresh(f"{here}:at_once"),
    }
    measured = in_rounds("agent", contestants, rounds)

    def of(contestant: str, name: str) -> list[float]:
        return [each[name] for each in measured[contestant]]

    sorting, few = of("sorting", "seconds"), of("adding", "few")
    huey = [HUEY / seconds for seconds in of("huey", "cold")]
    drained = of("draining", "rate")
    return [
        Figure(
            "agent", f"add_batch of {FEW:,} tasks; a list sorted on every add takes",
            median_ratio(sorting, few), "×", at_least(100),
            f"{median(few):.2f} s and {median(sorting):.1f} s; {spread(sorting, few)}",
        ),
        Figure(
            "agent", f"add_batch of {MANY:,} tasks; time a task against {FEW:,}",
            median_ratio(of("adding", "many"), few) * FEW / MANY, "×", at_most(1.5),
            f"{median(of('adding', 'many')):.2f} s",
        ),
        Figure(
            "agent", "status on 100,000 tasks; time against 1,000",
            median_ratio(of("adding", "status_long"), of("adding", "status_short")), "×",
            at_most(3), f"{1000 * median(of('adding', 'status_long')):.2f} ms",
        ),
        Figure(
            "agent", f"{DRAINED:,} no-op tasks drained, recorded; of huey's rate",
            median_ratio(drained, huey), "×", at_least(30),
            f"{median(drained):,.0f}/s, huey {median(huey):,.0f}/s; {spread(drained, huey)}",
        ),
        Figure(
            "agent", f"{AT_ONCE:,} tasks of 1 s at once; above the ideal, start included",
            median(of("at once", "seconds")) - 1.0, "s", at_most(2),
        ),
    ]  # fmt: skip


def adding(folder: str) -> dict[str, float]:
    """Seconds of one `add_batch`, short and long, and of `status` on both queues."""
    found: dict[str, float] = {}
    for name, count, times in (("short", 1_000, 1), ("few", FEW, 5), ("many", MANY, 1)):
        taken, looks = [], []
        for turn in range(times):  # what takes a moment is measured more than once
            executor = _executor(Path(folder, f"{name}-{turn}"))
            executor.perform("add_batch", tasks=_tasks(1))
            taken.append(_seconds(executor, "add_batch", tasks=_tasks(count)))
            looks += [_seconds(executor, "status") for _ in range(50)]
            executor.close()
        found[name] = median(taken)
        found["status_short" if name == "short" else "status_long"] = median(looks)
    return found


def _seconds(executor: Any, action: str, **arguments: Any) -> float:
    begin = time.perf_counter()
    executor.perform(action, **arguments)
    return time.perf_counter() - begin


class Level(enum.Enum):
    """A priority in the list that is sorted."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


@dataclass
class Entry:
    """A task in the list that is sorted."""

    name: str
    priority: Level
    created_at: float
    params: dict[str, Any] = field(default_factory=dict)


def sorting(folder: str) -> dict[str, float]:
    """Seconds to append tasks to a list under a lock and sort it each time."""

    async def fill() -> float:
        lock, entries, levels = asyncio.Lock(), [], list(Level)
        begin = time.perf_counter()
        for number in range(FEW):
            async with lock:
                entries.append(Entry(f"t{number}", levels[number % 3], time.time()))
                entries.sort(key=lambda entry: (-entry.priority.value, entry.created_at))
        return time.perf_counter() - begin

    return {"seconds": asyncio.run(fill())}


def draining(folder: str) -> dict[str, float]:
    """Tasks a second, from `start` until the last outcome is recorded."""
    executor = _executor(Path(folder, "yard"))
    executor.perform("add_batch", tasks=_tasks(DRAINED))
    return {"rate": DRAINED / _drained(executor, DRAINED, max_concurrent=2)}


def at_once(folder: str) -> dict[str, float]:
    """Seconds from `start` until as many waiting tasks have ended together."""
    executor = _executor(Path(folder, "yard"))
    tasks = [{"name": f"t{n}", "function": "simulate", "params": {"duration": 1}}
             for n in range(AT_ONCE)]  # fmt: skip
    executor.perform("add_batch", tasks=tasks)
    return {"seconds": _drained(executor, AT_ONCE, max_concurrent=AT_ONCE)}


def _executor(yard: Path) -> Any:
    from runyard.doors.agent import BatchExecutor

    sys.path.insert(0, str(ROOT))
    yard.mkdir(parents=True)
    (yard / "agent.toml").write_text('[functions]\nnoop = "benchmarks.work:noop"\n')
    return BatchExecutor(yard)


def _tasks(count: int) -> list[dict[str, Any]]:
    levels = ("low", "medium", "high")
    return [
        {"name": f"t{n}", "function": "noop", "params": {"i": n}, "priority": levels[n % 3]}
        for n in range(count)
    ]


def _drained(executor: Any, count: int, **options: Any) -> float:
    begin = time.perf_counter()
    pid = executor.perform("start", **options).data["pid"]
    while executor.perform("status").data["completed"] < count:
        assert time.perf_counter() - begin < LONGEST, "the queue does not drain"
        time.sleep(0.02)
    seconds = time.perf_counter() - begin
    executor.perform("stop", graceful=False)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.02)
    return seconds
