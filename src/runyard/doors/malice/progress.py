"""Progress over runs × tickets: how events of a batch of runs are shown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from runyard.doors.malice.task import TICKETS_KIND
from runyard.events import BatchFinished, BatchStarted, BatchStopped, Event, Progress, TaskEmitted


def by_tickets(tickets: int) -> Callable[[Event], Event]:
    """A view of events that counts tickets: those of finished runs, and those under way."""
    under_way: dict[int, int] = {}
    # A log says how many runs begin; a bar has room for one count, and that is tickets.
    has_bar = sys.stderr is not None and sys.stderr.isatty()

    def seen_as(event: Event) -> Event:
        if isinstance(event, TaskEmitted) and event.kind == TICKETS_KIND:
            done = int(event.data.get("done", 0))
            under_way[event.task] = done
            if done >= tickets:
                del under_way[event.task]
        elif isinstance(event, Progress):
            return _in_tickets(event, tickets, sum(under_way.values()))
        elif has_bar and isinstance(event, BatchStarted):
            return replace(event, total=event.total * tickets)
        elif has_bar and isinstance(event, BatchFinished | BatchStopped):
            return replace(
                event,
                completed=event.completed * tickets,
                failed=event.failed * tickets,
                cancelled=event.cancelled * tickets,
            )
        return event

    return seen_as


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
