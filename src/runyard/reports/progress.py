"""Progress for people: a live bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from runyard.events import (
    BatchFinished,
    BatchStarted,
    BatchStopped,
    Event,
    EventBus,
    Notice,
    TaskEmitted,
    TaskFailed,
    TaskRetried,
    WorkerLost,
)
from runyard.events import Progress as ProgressEvent
from runyard.format import count, duration, rate
from runyard.plaintext import one_line, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

Progress = bool | Callable[[ProgressEvent], None] | None
"""None: where stderr is a terminal. A function gets each progress event."""

PLAIN_SECONDS = 2.0
"""Time between two plain lines; it grows up to a minute on long runs."""

PLAIN_ALERTS = 10
"""Alerts between two plain lines that are shown in full; the rest are counted."""

ALERT_KIND = "alert"
"""A task that emits an event of this kind has its `message` shown on the alert line."""

NAME_WIDTH = 24
BAR_WIDTHS = (8, 40)


class ProgressView(Protocol):
    """Shows events."""

    def handle(self, event: Event) -> None:
        """Show an event."""

    def close(self) -> None:
        """Restore the terminal."""


@contextlib.contextmanager
def show(
    bus: EventBus,
    progress: Progress,
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


def _view(progress: Progress) -> ProgressView | None:
    if callable(progress):
        return CallbackView(progress)
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if progress is False or (progress is None and not is_terminal):
        return None
    dumb = os.environ.get("TERM") == "dumb"
    return LiveView() if is_terminal and not dumb else PlainView()


class CallbackView:
    def __init__(self, function: Callable[[ProgressEvent], None]) -> None:
        self._function = function

    def handle(self, event: Event) -> None:
        if isinstance(event, ProgressEvent):
            self._function(event)

    def close(self) -> None:
        """Nothing to restore."""


class PlainView:
    """Occasional lines, for logs and pipes."""

    def __init__(self) -> None:
        self._file = sys.stderr
        self._pause = PLAIN_SECONDS
        self._next = time.monotonic() + self._pause
        self._alerts = 0
        self._batch = ""

    def handle(self, event: Event) -> None:
        """Print events that deserve a line."""
        self._batch = event.batch
        if isinstance(event, ProgressEvent):
            if time.monotonic() >= self._next:
                self._pause = min(60.0, self._pause * 1.5)
                self._next = time.monotonic() + self._pause
                self._count_alerts()
                self._print(progress_line(event))
        elif isinstance(event, BatchStarted):
            self._print(started_line(event))
        else:
            self._alert(event)

    def close(self) -> None:
        """Print the count of alerts that were held back."""
        self._count_alerts()

    def _alert(self, event: Event) -> None:
        text = alert(event)
        if text is None:
            return
        if isinstance(event, TaskFailed | TaskRetried | TaskEmitted):
            self._alerts += 1
            if self._alerts > PLAIN_ALERTS:
                return
        self._print(text)

    def _count_alerts(self) -> None:
        if self._alerts > PLAIN_ALERTS:
            self._print(f"and {self._alerts - PLAIN_ALERTS:,} more failures or alerts")
        self._alerts = 0

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # stderr is closed
            print(plain(f"{self._batch}: {text}"), file=self._file, flush=True)


class LiveView:
    """One line with a bar, counts, rate, time left and workers, and under it the latest alert."""

    def __init__(self) -> None:
        self._file = sys.stderr  # kept, since tasks in this process may replace sys.stderr
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._started: BatchStarted | None = None
        self._last: ProgressEvent | None = None
        self._end: BatchFinished | BatchStopped | None = None
        self._alert = ""
        self._begin = time.monotonic()

    def handle(self, event: Event) -> None:
        """Redraw what changed."""
        with self._lock:
            if isinstance(event, BatchStarted):
                self._started = event
                self._begin = time.monotonic()
            elif isinstance(event, ProgressEvent):
                self._last = event
            elif isinstance(event, BatchFinished | BatchStopped):
                self._end = event
            elif not isinstance(event, Notice):
                text = alert(event)
                self._alert = text if text is not None else self._alert
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
        from rich.text import Text

        with self._lock:
            width = self._console.width - 1
            line = self._line(width)
            if self._alert and self._end is None:
                under = Text(f"\n{_clip(self._alert, width)}", style="yellow")
                return line.append_text(under)
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
        done, parts = self._parts(total)
        share = done / total if total else 1.0
        fitting, room = fit(parts, width - len(name) - 2)
        line = Text(name, style="bold", no_wrap=True).append(" ")
        if room >= BAR_WIDTHS[0]:
            _draw_bar(line, share, min(room, BAR_WIDTHS[1]), self._end is None)
            line.append(" ")
        for number, (text, look) in enumerate(fitting):
            line.append(" · " if number else "", style="dim").append(text, style=look)
        return line

    def _parts(self, total: int) -> tuple[int, list[tuple[str, str]]]:
        """How many tasks are done, and the parts of the line, the most important first."""
        counts = self._end or self._last
        if counts is None:
            return 0, [(f"0/{total:,}", ""), ("starting", "dim")]
        done = counts.completed + counts.failed + counts.cancelled
        parts = [(f"{done:,}/{total:,}", "")]
        for name, look in (("failed", "red"), ("cancelled", "yellow")):
            if getattr(counts, name):
                parts.append((f"{getattr(counts, name):,} {name}", look))
        if self._end is not None:
            parts.append((f"in {duration(self._end.seconds)}", ""))
            if isinstance(self._end, BatchStopped):
                parts.append((self._end.reason, "yellow"))
            return done, parts
        assert self._last is not None
        if self._last.retrying:
            parts.append((f"{self._last.retrying:,} to retry", "yellow"))
        if self._last.rate:
            parts.append((rate(self._last.rate), ""))
        if self._last.eta is not None and done < total:
            parts.append((f"{duration(self._last.eta)} left", ""))
        else:
            parts.append((duration(time.monotonic() - self._begin), "dim"))
        if self._last.metric is not None:
            parts.append((metric_text(*self._last.metric), "cyan"))
        parts.append((count(self._last.workers, "worker"), "dim"))
        return done, parts


def fit(parts: list[tuple[str, str]], width: int) -> tuple[list[tuple[str, str]], int]:
    """The parts that fit beside the smallest bar, and the width left for the bar."""
    kept = list(parts)
    while len(kept) > 1 and _length(kept) + 1 + BAR_WIDTHS[0] > width:
        kept.pop()
    return kept, width - 1 - _length(kept)


def progress_line(event: ProgressEvent) -> str:
    """The progress of a batch, on one line."""
    done = event.completed + event.failed + event.cancelled
    share = 100 * done / event.total if event.total else 100.0
    parts = [f"{done:,}/{event.total:,} ({share:.0f}%)"]
    for name, word in (("failed", "failed"), ("cancelled", "cancelled"), ("retrying", "to retry")):
        if getattr(event, name):
            parts.append(f"{getattr(event, name):,} {word}")
    if event.rate:
        parts.append(rate(event.rate))
    if event.eta is not None and done < event.total:
        parts.append(f"{duration(event.eta)} left")
    parts.append(count(event.workers, "worker"))
    if event.metric is not None:
        parts.append(metric_text(*event.metric))
    return " · ".join(parts)


def metric_text(name: str, mean: float, half: float) -> str:
    """A metric's mean so far, with its interval."""
    from runyard.stats.summary import plus_minus

    return f"{one_line(name)} {plus_minus(mean, half)}"


def started_line(event: BatchStarted) -> str:
    """The start of a run, on one line."""
    tasks, workers = count(event.total, "task"), count(event.workers, "worker")
    return f"{tasks} on {workers} ({event.backend}), seed {event.seed}"


def alert(event: Event) -> str | None:
    """The text of an event that should be seen at once; None for others."""
    if isinstance(event, TaskFailed):
        return f"task {event.task} failed: {event.error}: {_first_line(event.message)}"
    if isinstance(event, WorkerLost):
        at = "" if event.task is None else f" at task {event.task}"
        return f"worker {event.worker} {event.reason}{at}; replaced"
    if isinstance(event, TaskRetried):
        return f"task {event.task} will be retried: {event.error}: {_first_line(event.message)}"
    if isinstance(event, Notice):
        return event.text
    if isinstance(event, TaskEmitted) and event.kind == ALERT_KIND:
        return _first_line(str(event.data.get("message", event.data)))
    return None


def _draw_bar(line: Text, share: float, width: int, running: bool) -> None:
    halves = int(share * width * 2)
    full = "━" * (halves // 2) + ("╸" if halves % 2 else "")
    look = "cyan" if running else "green" if share >= 1 else "yellow"
    line.append(full, style=look).append("─" * (width - len(full)), style="dim")


def _length(parts: list[tuple[str, str]]) -> int:
    return sum(len(text) for text, _ in parts) + 3 * (len(parts) - 1)


def _clip(text: str, width: int) -> str:
    shown = one_line(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
