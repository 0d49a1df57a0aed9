"""The timeline of workers: one lane per worker, over the time of a run.

Each lane keeps how long it was busy in each of `BINS` equal parts of the run, so that a timeline
has the same size for a hundred tasks and for ten million.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runyard.format import count, duration
from runyard.reports.html.blocks import Html, join
from runyard.reports.html.charts import Row, Scale, chart, mark, outline, sign, span
from runyard.reports.html.history import RunHistory, RunRecord
from runyard.spec.status import Status

if TYPE_CHECKING:
    from runyard.reports.columns import Columns

BINS = 360
CHUNK = 1 << 18
LANES_SHOWN = 16
RUNS_SHOWN = 5
TASKS_SHOWN = 300
"""Up to this many tasks of a run are drawn one by one; otherwise the share of busy time is."""

MARKS = 60
"""Parts of a run, in each of which failures and retries are marked once."""

IDLE = 0.02  # a part of the run with less work than this share of it was idle
_LANES = 65_536  # an outcome's worker is engine × this + lane
_FAILED = Status.FAILED.code
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Tasks(NamedTuple):
    """Some tasks that ran on a worker, as columns."""

    task: NDArray[Any]
    engine: NDArray[Any]
    lane: NDArray[Any]
    start: NDArray[Any]
    seconds: NDArray[Any]
    failed: NDArray[Any]  # booleans, as is the next
    retried: NDArray[Any]

    def where(self, rows: NDArray[np.bool_]) -> Tasks:
        """Some of them."""
        return Tasks(*(column[rows] for column in self))


@dataclass
class Lane:
    """One worker of one run; times are seconds from the run's start."""

    number: int
    busy: Floats = field(default_factory=lambda: np.zeros(BINS))  # seconds in each part
    tasks: int = 0
    last: float = 0.0  # when its last task ended
    failed: Ints = field(default_factory=lambda: np.zeros(MARKS, np.int64))
    retried: bool = False
    parts: list[Tasks] = field(default_factory=list)  # the tasks themselves, where there are few

    def add(self, tasks: Tasks, run: RunLanes) -> None:
        """Add tasks, which start within the run."""
        end = np.minimum(tasks.start + tasks.seconds, run.seconds)
        self.busy += busy_time(tasks.start, end, run.seconds / BINS)
        self.tasks += len(end)
        self.last = max(self.last, float(end.max()))
        self.failed += _marked(tasks.start[tasks.failed], run.seconds)
        self.retried |= bool(tasks.retried.any())
        if run.one_by_one:
            self.parts.append(tasks)


@dataclass
class RunLanes:
    """What the workers of one run did."""

    engine: int
    start: float
    end: float
    run: RunRecord | None
    tasks: int
    lanes: dict[int, Lane] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long the run took."""
        return max(self.end - self.start, 1e-9)

    @property
    def one_by_one(self) -> bool:
        """Whether its tasks are drawn one by one."""
        return self.tasks <= TASKS_SHOWN

    def since(self, at: float) -> float:
        """Seconds from its start to a moment; what came after its end stands at its end."""
        return min(max(at - self.start, 0.0), self.seconds)

    def title(self) -> str:
        """What the workers did, in words."""
        number = f"Run {self.run.number}: " if self.run else ""
        lanes = self.lanes.values()
        workers = max(len(lanes), self.run.workers if self.run else 0)
        total = sum(float(lane.busy.sum()) for lane in lanes)
        busy = min(1.0, total / (self.seconds * max(1, workers)))
        title = f"{number}{count(len(lanes), 'worker')}, "
        title += f"busy {100 * busy:.0f}% of {duration(self.seconds)}"
        ends = [lane.last for lane in lanes]
        tail = max(ends) - min(ends)
        if len(lanes) > 1 and tail > 0.05 * self.seconds:
            title += f"; the last worker ended {duration(tail)} after the first"
        width = self.seconds / BINS
        gaps = [(_gap(lane.busy / width) * width, lane.number) for lane in lanes]
        gap, worker = max(gaps, key=lambda gap: (gap[0], -gap[1]))
        if gap > 0.05 * self.seconds:
            title += f"; longest gap {duration(gap)} on worker {worker}"
        return title


def _gap(shares: Floats) -> int:
    """The most idle parts in a row between two with work."""
    at = np.flatnonzero(shares >= IDLE)
    return int(np.diff(at).max() - 1) if len(at) > 1 else 0


def read_lanes(columns: Columns, history: RunHistory) -> list[RunLanes]:
    """The latest runs that have outcomes, oldest first."""
    runs: dict[int, RunLanes] = {}
    for engine, tasks in _by_engine(columns):
        first, last = float(tasks.start.min()), float((tasks.start + tasks.seconds).max())
        if engine not in runs:
            record = history.run_of(engine)
            first = first if record is None else min(first, record.started)
            last = last if record is None else max(last, record.ended or last)
            runs[engine] = RunLanes(engine, first, last, record, 0)
        run = runs[engine]
        run.start, run.end = min(run.start, first), max(run.end, last)
        run.tasks += len(tasks.task)
    latest = sorted(runs.values(), key=lambda run: run.start)[-RUNS_SHOWN:]
    shown = {run.engine: run for run in latest}
    for engine, tasks in _by_engine(columns):
        if (shown_run := shown.get(engine)) is not None:
            _fill(shown_run, tasks)
    return latest


def _by_engine(columns: Columns) -> Iterator[tuple[int, Tasks]]:
    """The tasks that ran on a worker, some at a time, each with one engine."""
    names = ("status", "worker", "started", "seconds", "attempt")
    status, worker, started, seconds, attempt = (columns.fixed(name) for name in names)
    for low in range(0, columns.total, CHUNK):
        rows = slice(low, low + CHUNK)
        ran = np.flatnonzero((worker[rows] >= _LANES) & (status[rows] > 0)) + low
        engine, lane = np.divmod(worker[ran], _LANES)
        failed, retried = status[ran] == _FAILED, attempt[ran] > 0
        found = Tasks(ran, engine, lane, started[ran], seconds[ran], failed, retried)
        for number in np.unique(engine).tolist():
            yield number, found.where(engine == number)


def _fill(run: RunLanes, tasks: Tasks) -> None:
    """Add tasks to the lanes of their run."""
    tasks = tasks._replace(start=np.clip(tasks.start - run.start, 0, run.seconds))
    for number in np.unique(tasks.lane).tolist():
        lane = run.lanes.setdefault(number, Lane(number))
        lane.add(tasks.where(tasks.lane == number), run)


def _marked(moments: Floats, seconds: float) -> Ints:
    """How many of these moments lie in each of the parts that are marked once."""
    at = np.minimum((moments / seconds * MARKS).astype(np.int64), MARKS - 1)
    return np.bincount(at, minlength=MARKS)


def busy_time(start: Floats, end: Floats, width: float) -> Floats:
    """How much of each part of a run lies inside these spans of time."""
    first = np.minimum((start / width).astype(np.int64), BINS - 1)
    last = np.minimum((end / width).astype(np.int64), BINS - 1)
    one = first == last
    many = ~one
    found = np.zeros(BINS)
    found += np.bincount(first[one], (end - start)[one], BINS)
    found += np.bincount(first[many], ((first + 1) * width - start)[many], BINS)
    found += np.bincount(last[many], (end - last * width)[many], BINS)
    # What lies wholly inside a span: a step up after its first part, a step down at its last.
    steps = np.bincount(first[many] + 1, minlength=BINS + 1)
    steps = steps - np.bincount(last[many], minlength=BINS + 1)
    return np.asarray(found + np.cumsum(steps)[:BINS] * width, np.float64)


# Drawing


def draw(run: RunLanes, history: RunHistory, batch: str) -> Html:
    """One run's chart, titled with what it shows."""
    scale, each = Scale.over((0.0, run.seconds), zero=True, margin=0.0), run.one_by_one
    lost = [each[1:] for each in history.lost if each[0] == run.engine]
    retried = [run.since(at) for engine, at in history.retried if engine == run.engine]
    lanes = sorted(run.lanes.values(), key=lambda lane: lane.number)
    size = -(-len(lanes) // LANES_SHOWN)  # neighbours share a row if there are many
    rows = []
    for group in (lanes[at : at + size] for at in range(0, len(lanes), size)):
        alone = each and size == 1
        marks = _one_by_one(group[0], scale, batch) if alone else _shares(group, scale, run)
        numbers = {lane.number for lane in group}
        marks += [
            mark("cross", scale.at(run.since(at)), 5, f"lost: {why}")
            for at, worker, why in lost
            if worker in numbers
        ]
        rows.append(_row(group, run, join(marks)))
    if retried:
        marks = _marks("triangle", _marked(np.array(retried), run.seconds), scale, run)
        rows.append(Row("retries", join(marks), count(len(retried), "retry", "retries"), 16))
    key: list[object] = ["each bar is a task" if each else "height: share of time spent in tasks"]
    signs = {
        "square": ("failed task", any(lane.failed.any() for lane in lanes)),
        "triangle": ("retry", bool(retried) or (each and any(lane.retried for lane in lanes))),
        "cross": ("worker lost", bool(lost)),
    }
    key += [join((sign(shape), " ", what)) for shape, (what, is_drawn) in signs.items() if is_drawn]
    axis = "seconds since the start of the run"
    return chart(run.title(), rows, scale, axis=axis, key=join(key, " · "))


def _one_by_one(lane: Lane, scale: Scale, batch: str) -> list[Html]:
    marks = []
    for tasks in lane.parts:
        columns = (tasks.task, tasks.start, tasks.seconds, tasks.failed, tasks.retried)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for task, start, seconds, failed, retried in rows:
            end = "failed after" if failed else "took"
            again = ", after a retry" if retried else ""
            tooltip = f"{batch}/{task} {end} {duration(seconds)}{again}"
            kind = "bar failed" if failed else "bar"
            marks.append(span(scale, start, start + seconds, 10, 16, kind, tooltip))
            if failed or retried:
                shape = "square" if failed else "triangle"
                marks.append(mark(shape, scale.at(start + seconds / 2), 5, tooltip))
    return marks


def _shares(group: Sequence[Lane], scale: Scale, run: RunLanes) -> list[Html]:
    total = sum((lane.busy for lane in group), np.zeros(BINS))
    shares = (total / (run.seconds / BINS * len(group))).tolist()
    failed = sum((lane.failed for lane in group), np.zeros(MARKS, np.int64))
    bars = outline(scale, 0.0, run.seconds, shares, 16, 10)
    return [bars, *_marks("square", failed, scale, run)]


def _marks(shape: str, counts: Ints, scale: Scale, run: RunLanes) -> list[Html]:
    """A mark for each part of the run in which there was one or more."""
    names = ("failed task", None) if shape == "square" else ("retry", "retries")
    return [
        mark(shape, scale.at((at + 0.5) / MARKS * run.seconds), 5, count(number, *names))
        for at, number in enumerate(counts.tolist())
        if number
    ]


def _row(group: Sequence[Lane], run: RunLanes, marks: Html) -> Row:
    first, last = group[0].number, group[-1].number
    name = f"worker {first}" if first == last else f"workers {first}–{last}"
    busy = sum(float(lane.busy.sum()) for lane in group) / (run.seconds * len(group))
    tasks = count(sum(lane.tasks for lane in group), "task")
    return Row(name, marks, f"{100 * min(1.0, busy):.0f}% busy, {tasks}")
