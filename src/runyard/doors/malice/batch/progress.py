"""Progress in tickets instead of runs: adapts the events of a batch for display."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from runyard.doors.malice.run.task import TICKETS_KIND
from runyard.doors.malice.society.state import MALLORY
from runyard.events import (
    BatchFinished,
    BatchStarted,
    BatchStopped,
    Event,
    Notice,
    Progress,
    TaskEmitted,
)
from runyard.reports.progress import ALERT_KIND

KEPT = 10
"""Number of mallory's promotions shown as notices; later ones are ordinary alerts."""


def by_tickets(tickets: int) -> Callable[[Event], Event]:
    """Return a function that converts events to count tickets, of finished and running runs."""
    under_way: dict[int, int] = {}
    # A log line names the number of runs; a bar has room for one count, of tickets.
    has_bar = sys.stderr is not None and sys.stderr.isatty()
    hers = 0

    def seen_as(event: Event) -> Event:
        nonlocal hers
        if isinstance(event, TaskEmitted) and event.kind == TICKETS_KIND:
            done = int(event.data.get("done", 0))
            under_way[event.task] = done
            if done >= tickets:
                del under_way[event.task]
        elif isinstance(event, TaskEmitted) and event.kind == ALERT_KIND:
            message = str(event.data.get("message", ""))
            if hers < KEPT and f" {MALLORY} " in message:
                hers += 1
                return Notice(batch=event.batch, text=message, level="warning")
        elif isinstance(event, Progress):
            return _in_tickets(event, tickets, sum(under_way.values()))
        elif isinstance(event, BatchStarted):
            return _started(event, tickets, has_bar)
        elif has_bar and isinstance(event, BatchFinished | BatchStopped):
            return replace(
                event,
                completed=event.completed * tickets,
                failed=event.failed * tickets,
                cancelled=event.cancelled * tickets,
            )
        return event

    return seen_as


def _started(event: BatchStarted, tickets: int, has_bar: bool) -> BatchStarted:
    """The start event, which names what is counted."""
    if has_bar:
        return replace(event, batch=f"tickets: {event.batch}", total=event.total * tickets)
    return replace(event, backend=f"{event.backend}, {tickets:,} tickets each")


def _in_tickets(event: Progress, tickets: int, under_way: int) -> Progress:
    left = (event.total - event.completed - event.failed - event.cancelled) * tickets
    return replace(
        event,
        total=event.total * tickets,
        completed=event.completed * tickets + min(under_way, left),
        failed=event.failed * tickets,
        cancelled=event.cancelled * tickets,
        rate=event.rate * tickets,
    )
