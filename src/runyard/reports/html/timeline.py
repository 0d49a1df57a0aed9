"""The timeline of workers: one lane per worker, over the time of a run.

Each lane keeps how long it was busy in each of `BINS` equal parts of the run, so that a timeline
has the same size for a hundred tasks and for ten million.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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


@dataclass
class TaskBar:
    """One task, to be drawn by itself or marked."""

    task: int
    start: float  # seconds from the run's start
    seconds: float
    failed: bool
    retried: bool


@dataclass
class Lane:
    """One worker of one run."""

    number: int
    busy: Floats  # seconds in each part of the run
    tasks: int = 0
    last: float = 0.0  # when its last task ended, in seconds from the run's start
    failed: Ints = field(default_factory=lambda: np.zeros(MARKS, np.int64))
    retried: Ints = field(default_factory=lambda: np.zeros(MARKS, np.int64))
    bars: list[TaskBar] = field(default_factory=list)  # where there are few


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
    def width(self) -> float:
        """How long one part of it is."""
        return self.seconds / BINS

    @property
    def busy(self) -> float:
        """The share of the workers' time that went into tasks."""
        workers = max(len(self.lanes), self.run.workers if self.run else 0)
        total = sum(float(lane.busy.sum()) for lane in self.lanes.values())
        return min(1.0, total / (self.seconds * max(1, workers)))

    @property
    def tail(self) -> float:
        """How long the last worker worked after the first one had finished."""
        ends = [lane.last for lane in self.lanes.values()]
        return max(ends) - min(ends)

    def longest_gap(self) -> tuple[float, int]:
        """The longest idle time between two tasks of a worker, and which worker's it was."""
        gaps = [
            (_gap(lane.busy / self.width) * self.width, lane.number) for lane in self.lanes.values()
        ]
        return max(gaps, key=lambda gap: (gap[0], -gap[1]))


def _gap(shares: Floats) -> int:
    """The most idle parts in a row between two with work."""
    at = np.flatnonzero(shares >= IDLE)
    return int(np.diff(at).max() - 1) if len(at) > 1 else 0


def read_lanes(columns: Columns, history: RunHistory) -> list[RunLanes]:
    """The latest runs that have outcomes, oldest first."""
    runs = [_lanes(engine, history, *found) for engine, found in _spans(columns).items()]
    latest = sorted(runs, key=lambda run: run.start)[-RUNS_SHOWN:]
    by_engine = {run.engine: run for run in latest}
    for part in _parts(columns):
        for engine in np.unique(part.engine):
            run = by_engine.get(int(engine))
            if run is not None:
                _fill(run, part, np.flatnonzero(part.engine == engine))
    return latest


def _lanes(engine: int, history: RunHistory, first: float, last: float, tasks: int) -> RunLanes:
    run = history.run_of(engine)
    start = first if run is None else min(run.started, first)
    return RunLanes(engine, start, max(last, run.ended or last if run else last), run, tasks)


@dataclass(frozen=True, slots=True)
class _OutcomeColumns:
    """Some outcomes that ran on a worker."""

    task: Ints
    engine: Ints
    lane: Ints
    start: Floats
    seconds: Floats
    failed: NDArray[np.bool_]
    retried: NDArray[np.bool_]


def _parts(columns: Columns) -> Iterator[_OutcomeColumns]:
    names = ("status", "worker", "started", "seconds", "attempt")
    status, worker, started, seconds, attempt = (columns.fixed(name) for name in names)
    for low in range(0, columns.total, CHUNK):
        rows = slice(low, low + CHUNK)
        ran = np.flatnonzero((worker[rows] >= _LANES) & (status[rows] > 0)) + low
        if len(ran):
            yield _OutcomeColumns(
                ran,
                worker[ran] // _LANES,
                worker[ran] % _LANES,
                started[ran],
                seconds[ran],
                status[ran] == _FAILED,
                attempt[ran] > 0,
            )


def _spans(columns: Columns) -> dict[int, tuple[float, float, int]]:
    """For each engine: its first start, its last end, how many tasks it ended."""
    found: dict[int, tuple[float, float, int]] = {}
    for part in _parts(columns):
        for engine in np.unique(part.engine):
            mine = part.engine == engine
            first = float(part.start[mine].min())
            last = float((part.start[mine] + part.seconds[mine]).max())
            tasks = int(mine.sum())
            if int(engine) in found:
                before = found[int(engine)]
                first, last = min(first, before[0]), max(last, before[1])
                tasks += before[2]
            found[int(engine)] = first, last, tasks
    return found


def _fill(run: RunLanes, part: _OutcomeColumns, rows: Ints) -> None:
    """Add tasks to the lanes of their run."""
    start = np.clip(part.start[rows] - run.start, 0, run.seconds)
    end = np.minimum(start + part.seconds[rows], run.seconds)
    for number in np.unique(part.lane[rows]):
        mine = part.lane[rows] == number
        lane = run.lanes.setdefault(int(number), Lane(int(number), np.zeros(BINS)))
        lane.busy += busy_time(start[mine], end[mine], run.width)
        lane.tasks += int(mine.sum())
        lane.last = max(lane.last, float(end[mine].max()))
        for held, which in ((lane.failed, part.failed), (lane.retried, part.retried)):
            held += _marked(start[mine & which[rows]], run.seconds)
        if run.tasks <= TASKS_SHOWN:
            lane.bars += [
                _task_bar(part, rows[at], float(start[at])) for at in np.flatnonzero(mine)
            ]


def _task_bar(part: _OutcomeColumns, row: int, start: float) -> TaskBar:
    return TaskBar(
        int(part.task[row]),
        start,
        float(part.seconds[row]),
        bool(part.failed[row]),
        bool(part.retried[row]),
    )


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
    scale = Scale.over((0.0, run.seconds), zero=True, margin=0.0)
    each = run.tasks <= TASKS_SHOWN
    lost = [
        (_since(run, at), worker, why)
        for engine, at, worker, why in history.lost
        if engine == run.engine
    ]
    rows = []
    for group in _grouped(list(run.lanes.values())):
        alone = each and len(group) == 1
        marks = _one_by_one(group[0], scale, batch) if alone else _shares(group, scale, run)
        numbers = {lane.number for lane in group}
        marks += [
            mark("cross", scale.at(at), 5, f"lost: {why}") for at, w, why in lost if w in numbers
        ]
        rows.append(_row(group, run, join(marks)))
    retried = [_since(run, at) for engine, at in history.retried if engine == run.engine]
    if retried:
        rows.append(_retries(retried, scale, run))
    return chart(
        _title(run),
        rows,
        scale,
        axis="seconds since the start of the run",
        key=_key(run, each, bool(lost), bool(retried)),
    )


def _since(run: RunLanes, at: float) -> float:
    """Seconds from the start of the run; what came after its last outcome stands at its end."""
    return min(max(at - run.start, 0.0), run.seconds)


def _grouped(lanes: list[Lane]) -> list[list[Lane]]:
    """RunLanes in groups of neighbours, if there are many."""
    ordered = sorted(lanes, key=lambda lane: lane.number)
    size = -(-len(ordered) // LANES_SHOWN)
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def _one_by_one(lane: Lane, scale: Scale, batch: str) -> list[Html]:
    marks = []
    for task in lane.bars:
        end = "failed after" if task.failed else "took"
        again = ", after a retry" if task.retried else ""
        tooltip = f"{batch}/{task.task} {end} {duration(task.seconds)}{again}"
        kind = "bar failed" if task.failed else "bar"
        marks.append(span(scale, task.start, task.start + task.seconds, 10, 16, kind, tooltip))
        if task.failed or task.retried:
            shape = "square" if task.failed else "triangle"
            marks.append(mark(shape, scale.at(task.start + task.seconds / 2), 5, tooltip))
    return marks


def _shares(group: list[Lane], scale: Scale, run: RunLanes) -> list[Html]:
    total = sum((lane.busy for lane in group), np.zeros(BINS))
    shares = (total / (run.width * len(group))).tolist()
    failed = sum((lane.failed for lane in group), np.zeros(MARKS, np.int64))
    return [
        outline(scale, 0.0, run.seconds, shares, 16, 10),
        *_marks("square", failed, scale, run, "failed task"),
    ]


def _marks(shape: str, counts: Ints, scale: Scale, run: RunLanes, one: str) -> list[Html]:
    """A mark for each part of the run in which there was one or more."""
    many = "retries" if one == "retry" else None
    return [
        mark(shape, scale.at((at + 0.5) / MARKS * run.seconds), 5, count(int(n), one, many))
        for at, n in enumerate(counts)
        if n
    ]


def _row(group: list[Lane], run: RunLanes, marks: Html) -> Row:
    first, last = group[0].number, group[-1].number
    name = f"worker {first}" if first == last else f"workers {first}–{last}"
    busy = sum(float(lane.busy.sum()) for lane in group) / (run.seconds * len(group))
    tasks = sum(lane.tasks for lane in group)
    note = f"{100 * min(1.0, busy):.0f} % busy, {count(tasks, 'task')}"
    return Row(name, marks, note, height=30, spoken=f"{name}: {note}")


def _retries(moments: list[float], scale: Scale, run: RunLanes) -> Row:
    marks = _marks("triangle", _marked(np.array(moments), run.seconds), scale, run, "retry")
    return Row("retries", join(marks), count(len(moments), "retry", "retries"), height=16)


def _title(run: RunLanes) -> str:
    number = f"RunRecord {run.run.number}: " if run.run else ""
    workers = count(len(run.lanes), "worker")
    title = f"{number}{workers}, busy {100 * run.busy:.0f} % of {duration(run.seconds)}"
    if len(run.lanes) > 1 and run.tail > 0.05 * run.seconds:
        title += f"; the last worker ended {duration(run.tail)} after the first"
    gap, worker = run.longest_gap()
    if gap > 0.05 * run.seconds:
        title += f"; longest gap {duration(gap)} on worker {worker}"
    return title


def _key(run: RunLanes, each: bool, lost: bool, retried: bool) -> Html:
    words: list[object] = ["each bar is a task" if each else "height: share of time spent in tasks"]
    if any(lane.failed.any() for lane in run.lanes.values()):
        words.append(join((sign("square"), " failed task")))
    if retried or (each and any(lane.retried.any() for lane in run.lanes.values())):
        words.append(join((sign("triangle"), " retry")))
    if lost:
        words.append(join((sign("cross"), " worker lost")))
    return join(words, " · ")
