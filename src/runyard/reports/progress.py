"""Progress for people: a live bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from runyard.events import (
    BatchFinished,
    BatchStarted,
    BatchStopped,
    Event,
    EventBus,
    Notice,
    Progress,
    TaskEmitted,
    TaskFailed,
    TaskRetried,
    WorkerLost,
)
from runyard.format import count, cut, duration, plus_minus, rate
from runyard.plaintext import one_line, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

ShowProgress = bool | Callable[[Progress], None] | None
"""None: where stderr is a terminal. A function gets each progress event."""

PLAIN_SECONDS = 2.0
"""Time between two plain lines; it grows up to a minute on long runs."""

PLAIN_ALERTS = 10
"""Alerts between two plain lines that are shown in full; the rest are counted."""

ALERT_KIND = "alert"
"""A task that emits an event of this kind has its `message` shown on the alert line."""

NAME_WIDTH = 24
BAR_WIDTHS = (8, 40)
StyledParts = list[tuple[str, str]]
"""Pieces of a line with their styles, the most important first."""


class ProgressView(ABC):
    """Shows events."""

    @abstractmethod
    def handle(self, event: Event) -> None:
        """Show an event."""

    def close(self) -> None:  # noqa: B027 - a view without a terminal has nothing to restore
        """Restore the terminal."""


@contextlib.contextmanager
def show(
    bus: EventBus,
    progress: ShowProgress,
    seen_as: Callable[[Event], Event] = lambda event: event,
) -> Iterator[None]:
    """Show a run's progress while this lasts; `seen_as` may change what is shown of an event."""
    view = _view(progress)
    if view is None:
        yield
        return
    subscription = bus.subscribe(Event, lambda event: view.handle(seen_as(event)))
    try:
        yield
    finally:
        subscription.flush()
        subscription.unsubscribe()
        view.close()


def _view(progress: ShowProgress) -> ProgressView | None:
    if callable(progress):
        return CallbackView(progress)
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if progress is False or (progress is None and not is_terminal):
        return None
    dumb = os.environ.get("TERM") == "dumb"
    return LiveView() if is_terminal and not dumb else PlainView()


class CallbackView(ProgressView):
    """Hands progress events to a function."""

    def __init__(self, function: Callable[[Progress], None]) -> None:
        self._function = function

    def handle(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._function(event)


class PlainView(ProgressView):
    """Occasional lines, for logs and pipes."""

    def __init__(self) -> None:
        self._file = sys.stderr
        self._pause = PLAIN_SECONDS
        self._next = time.monotonic() + self._pause
        self._alerts = 0
        self._batch = ""

    def handle(self, event: Event) -> None:
        self._batch = event.batch
        if isinstance(event, Progress):
            if time.monotonic() >= self._next:
                self._pause = min(60.0, self._pause * 1.5)
                self._next = time.monotonic() + self._pause
                self._count_alerts()
                self._print(progress_line(event))
        elif isinstance(event, BatchStarted):
            self._print(started_line(event))
        elif (text := alert(event)) is not None:
            self._alerts += isinstance(event, TaskFailed | TaskRetried | TaskEmitted)
            if self._alerts <= PLAIN_ALERTS or isinstance(event, WorkerLost | Notice):
                self._print(text)

    def close(self) -> None:
        self._count_alerts()

    def _count_alerts(self) -> None:
        if self._alerts > PLAIN_ALERTS:
            more = self._alerts - PLAIN_ALERTS
            self._print(f"and {count(more, 'more message')}")
        self._alerts = 0

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # stderr is closed
            print(plain(f"{self._batch}: {text}"), file=self._file, flush=True)


class LiveView(ProgressView):
    """One line with a bar, counts, rate, time left and workers, and under it the latest alert."""

    def __init__(self) -> None:
        self._file = sys.stderr  # kept, since tasks in this process may replace sys.stderr
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._started: BatchStarted | None = None
        self._last: Progress | None = None
        self._end: BatchFinished | BatchStopped | None = None
        self._alert = ""
        self._begin = time.monotonic()

    def handle(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, BatchStarted):
                self._started = event
                self._begin = time.monotonic()
            elif isinstance(event, Progress):
                self._last = event
            elif isinstance(event, BatchFinished | BatchStopped):
                self._end = event
            elif not isinstance(event, Notice):
                self._alert = alert(event) or self._alert
        if isinstance(event, Notice):
            self._console.print(plain(event.text), style="yellow", markup=False)
        elif self._started is not None and self._live is None:
            self._start()

    def close(self) -> None:
        """Leave the final line on the terminal."""
        if self._live is not None:
            self._live.stop()

    def __rich__(self) -> Text:
        """The current view; drawn several times a second."""
        with self._lock:
            width = self._console.width - 1
            line = self._line(width)
            if self._alert and self._end is None:
                line.append(f"\n{_clip(self._alert, width)}", style="yellow")
            return line

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self._file, highlight=False)

    def _start(self) -> None:
        from rich.live import Live

        self._live = Live(
            self, console=self._console, refresh_per_second=10, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        self._live.start()

    def _line(self, width: int) -> Text:
        from rich.text import Text

        assert self._started is not None
        total, name = self._started.total, _clip(self._started.batch, NAME_WIDTH)
        fitting, room = fit(self._parts(total), width - len(name) - 2)
        line = Text(no_wrap=True).append(name, style="bold").append(" ")
        if room >= BAR_WIDTHS[0]:
            bar, counts = min(room, BAR_WIDTHS[1]), self._end or self._last
            share = (_done(counts) if counts else 0) / total if total else 1.0
            halves = int(share * bar * 2)
            full = "━" * (halves // 2) + "╸" * (halves % 2)
            look = "cyan" if self._end is None else "green" if share >= 1 else "yellow"
            line.append(full, style=look).append("─" * (bar - len(full)), style="dim").append(" ")
        for number, (text, look) in enumerate(fitting):
            line.append(" · " if number else "", style="dim").append(text, style=look)
        return line

    def _parts(self, total: int) -> StyledParts:
        if self._end is not None:
            parts = [*_counts(self._end, total), (f"in {duration(self._end.seconds)}", "")]
            if isinstance(self._end, BatchStopped):
                parts.append((self._end.reason, "yellow"))
            return parts
        last = self._last
        if last is None:
            return [(f"0/{total:,}", ""), ("starting", "dim")]
        parts = _counts(last, total)
        if last.eta is None or _done(last) >= total:
            parts.append((duration(time.monotonic() - self._begin), "dim"))
        if last.metric is not None:
            parts.append((metric_text(*last.metric), "cyan"))
        return [*parts, (count(last.workers, "worker"), "dim")]


Counts = Progress | BatchFinished | BatchStopped


def _done(counts: Counts) -> int:
    return counts.completed + counts.failed + counts.cancelled


def _counts(counts: Counts, total: int) -> StyledParts:
    """How far a batch is; while it runs, with its rate and the time left."""
    parts = [(f"{_done(counts):,}/{total:,}", "")]
    for name, words, look in (
        ("failed", "failed", "red"),
        ("cancelled", "cancelled", "yellow"),
        ("retrying", "to retry", "yellow"),
    ):
        if number := getattr(counts, name, 0):
            parts.append((f"{number:,} {words}", look))
    if isinstance(counts, Progress):
        if counts.rate:
            parts.append((rate(counts.rate), ""))
        if counts.eta is not None and _done(counts) < total:
            parts.append((f"{duration(counts.eta)} left", ""))
    return parts


def fit(parts: StyledParts, width: int) -> tuple[StyledParts, int]:
    """The parts that fit beside the smallest bar, and the width left for the bar."""
    kept = list(parts)
    while len(kept) > 1 and _length(kept) + 1 + BAR_WIDTHS[0] > width:
        kept.pop()
    return kept, width - 1 - _length(kept)


def _length(parts: StyledParts) -> int:
    return sum(len(text) for text, _ in parts) + 3 * (len(parts) - 1)


def progress_line(event: Progress) -> str:
    """The progress of a batch, on one line."""
    first, *rest = (text for text, _ in _counts(event, event.total))
    share = 100 * _done(event) / event.total if event.total else 100.0
    parts = [f"{first} ({share:.0f}%)", *rest, count(event.workers, "worker")]
    if event.metric is not None:
        parts.append(metric_text(*event.metric))
    return " · ".join(parts)


def metric_text(name: str, mean: float, half: float) -> str:
    """A metric's mean so far, with its interval."""
    return f"{one_line(name)} {plus_minus(mean, half)}"


def started_line(event: BatchStarted) -> str:
    """The start of a run, on one line."""
    tasks, workers = count(event.total, "task"), count(event.workers, "worker")
    return f"{tasks} on {workers} ({event.backend}), seed {event.seed}"


def ended_line(event: BatchFinished | BatchStopped) -> str:
    """The end of a run, on one line."""
    counts = [
        f"{n:,} {s}" for s in ("completed", "failed", "cancelled") if (n := getattr(event, s))
    ]
    how = "finished" if isinstance(event, BatchFinished) else f"stopped ({event.reason})"
    return f"{how} after {duration(event.seconds)}: {', '.join(counts) or 'no outcome'}"


def alert(event: Event) -> str | None:
    """The text of an event that should be seen at once; None for others."""
    if isinstance(event, TaskFailed | TaskRetried):
        what = "failed" if isinstance(event, TaskFailed) else "will be retried"
        return f"task {event.task} {what}: {event.error}: {_first_line(event.message)}"
    if isinstance(event, WorkerLost):
        at = "" if event.task is None else f" at task {event.task}"
        return f"worker {event.worker} {event.reason}{at}; replaced"
    if isinstance(event, Notice):
        return event.text
    if isinstance(event, TaskEmitted) and event.kind == ALERT_KIND:
        return _first_line(str(event.data.get("message", event.data)))
    return None


def _clip(text: str, width: int) -> str:
    return cut(one_line(text), width)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
