"""Lanes inside the engine's own process: what they bring is gathered here."""

from __future__ import annotations

import queue
from typing import Any, NamedTuple

from runyard.attempt.runner import Result
from runyard.attempt.trouble import Trouble
from runyard.attempt.wire import Completed, Emission, Failure, Loss, Report
from runyard.spec.outcome import Printed


class News(NamedTuple):
    """One thing from a lane: what an attempt came to, an emission, or its chunk's end."""

    lane: int
    chunk: int
    done: int
    what: Result | Emission | Trouble | None  # None: the chunk is finished, as with trouble


class Inbox:
    """Collects news one by one and hands them on as reports."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[News | Loss | None] = queue.SimpleQueue()
        self.put = self._queue.put

    def wake(self) -> None:
        """Let a waiting `take` return."""
        self._queue.put(None)

    def take(self, timeout: float) -> list[Report | Loss]:
        """Everything that is there, losses last; waits so long for the first thing."""
        losses: list[Loss] = []
        gathered: dict[tuple[int, int], list[News]] = {}
        try:
            entry = self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
            while True:
                if isinstance(entry, Loss):
                    losses.append(entry)
                elif entry is not None:
                    gathered.setdefault((entry.lane, entry.chunk), []).append(entry)
                entry = self._queue.get_nowait()
        except queue.Empty:
            return [*map(_report, gathered.values()), *losses]


def _report(news: list[News]) -> Report:
    # A thread that outlives its task may still emit after the chunk's end.
    own = [each for each in news if not isinstance(each.what, Emission)]
    lane, chunk, done, last = (own or news)[-1]
    rows: list[Any] = []
    failures: list[Failure] = []
    printed: list[Printed] = []
    emitted: list[Emission] = []
    seconds = 0.0
    for _, _, _, what in news:
        if isinstance(what, Failure):
            failures.append(what)
            seconds += what.row.seconds
        elif isinstance(what, Emission):
            emitted.append(what)
        elif what is not None and not isinstance(what, Trouble):
            if isinstance(what, Completed):
                printed.append(what.printed)
                what = what.row
            rows += what
            seconds += what[6]
    trouble = last if isinstance(last, Trouble) else None
    finished = last is None or trouble is not None
    return Report(
        lane, chunk, done, rows, failures, printed, emitted, seconds, finished, trouble=trouble
    )
