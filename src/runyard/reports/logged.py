"""What happens in a run, as log messages: trouble as warnings, all else as info."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from runyard.events import (
    BatchFinished,
    BatchStarted,
    BatchStopped,
    Event,
    EventBus,
    Notice,
    ResultsRefused,
    TaskFailed,
)
from runyard.format import count
from runyard.plaintext import one_line
from runyard.reports.progress import alert, ended_line, started_line

log = logging.getLogger(__name__)


@contextlib.contextmanager
def logged(bus: EventBus) -> Iterator[None]:
    """Log what is published while this lasts, if anything listens to the log."""
    if not log.hasHandlers():
        yield
        return
    with bus.subscribe(Event, log_event):
        yield


def log_event(event: Event) -> None:
    """Log an event that an operator wants to know of."""
    text = _text(event)
    if text is not None:
        level = logging.WARNING if _is_trouble(event) else logging.INFO
        log.log(level, "%s: %s", event.batch, one_line(text))


def _is_trouble(event: Event) -> bool:
    if isinstance(event, Notice):
        return event.level == "warning"
    return isinstance(event, TaskFailed | ResultsRefused)


def _text(event: Event) -> str | None:
    if isinstance(event, BatchStarted):
        return started_line(event)
    if isinstance(event, BatchFinished | BatchStopped):
        return ended_line(event)
    if isinstance(event, ResultsRefused):
        return f"another engine has taken over {count(len(event.tasks), 'task')} of this one"
    return alert(event)
