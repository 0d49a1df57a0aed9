"""What outcomes add up to while they come in: budgets, and the metric that progress shows.

A budget is for the batch as a whole, over every run of it. What is under way is counted at the
mean of what has ended, so that a budget is passed by a few tasks at most. Several engines at once
share the count of tasks; the sum of a metric each of them keeps for itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from runyard.spec.codec import decode_as
from runyard.spec.fields import number_at
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import COMPLETED
from runyard.spec.task import MINUTES, TASKS
from runyard.stats.intervals import t_interval
from runyard.stats.moments import Moments


class Meter:
    """Sees every outcome once, and knows how many tasks may still be started."""

    def __init__(
        self,
        budget: Mapping[str, float],
        shown: str | None,
        codec: str,
        *,
        done: int,
        seconds: float,
        rows: Iterable[OutcomeRow],
    ) -> None:
        self._budget = dict(budget)
        self._shown = shown
        self._codec = codec
        self._done = done  # what earlier runs have used
        self._seconds = seconds
        names = {*budget, *([shown] if shown else [])} - {TASKS, MINUTES}
        self._metrics = {name: Moments(order=2) for name in names}
        if names:
            self._add(rows)

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Outcomes that came in."""
        self._done += len(rows)
        if self._metrics:
            self._add(rows)

    def recorded(self, done: int) -> None:
        """So many outcomes are in the store, those of other engines too."""
        self._done = max(self._done, done)

    def room(self, flying: int, elapsed: float) -> float:
        """How many tasks may be started while so many are under way."""
        least = min((self._left(name, elapsed) for name in self._budget), default=math.inf)
        return max(0.0, least - flying)

    def reached(self, elapsed: float) -> str:
        """The budget that is used up, in words."""
        used = {TASKS: float(self._done), MINUTES: (self._seconds + elapsed) / 60}
        used |= {name: moments.total for name, moments in self._metrics.items()}
        name = next(name for name in self._budget if self._left(name, elapsed) < 1)
        return f"{name}: {used[name]:.6g} of {self._budget[name]:.6g}"

    @property
    def shown(self) -> tuple[str, float, float] | None:
        """The metric that progress shows: its name, mean, and half of its 95 % interval."""
        moments = None if self._shown is None else self._metrics[self._shown]
        if self._shown is None or moments is None or moments.count < 2:
            return None
        return self._shown, moments.mean, t_interval(moments).half

    def _left(self, name: str, elapsed: float) -> float:
        """How many more tasks a budget allows."""
        most = self._budget[name]
        if name == TASKS:
            return most - self._done
        if name == MINUTES:
            return math.inf if self._seconds + elapsed < 60 * most else 0
        moments = self._metrics[name]
        left = most - (moments.total if moments.count else 0)
        if left <= 0:
            return 0
        return max(1, left // moments.mean) if moments.count and moments.mean > 0 else math.inf

    def _add(self, rows: Iterable[OutcomeRow]) -> None:
        found: dict[str, list[float]] = {name: [] for name in self._metrics}
        for row in rows:
            if row[1] == COMPLETED and row[3] is not None:
                value = decode_as(self._codec, row[3])
                for name, numbers in found.items():
                    number = number_at(value, name)
                    if number is not None:
                        numbers.append(number)
        for name, numbers in found.items():
            self._metrics[name].add_array(numbers)
