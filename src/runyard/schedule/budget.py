"""Budgets, and the metric that progress shows: what outcomes add up to as they come in.

A budget is for the batch as a whole, over every run of it. What is under way is counted at the
mean of what has ended, so that a budget is passed by a few tasks at most. Several engines at once
share the count of tasks; the sum of a metric each of them keeps for itself.

A metric that the first outcomes don't have would be no limit at all: it ends the run. Failed tasks
return nothing and are not among the first; until one has the metric, few tasks are started at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from runyard.errors import MetricMissing
from runyard.format import count, listed
from runyard.spec.codec import decode_as
from runyard.spec.fields import leaves
from runyard.spec.option_kinds import TASKS, TIMES, UNITS
from runyard.spec.outcome import OutcomeRow
from runyard.spec.status import COMPLETED
from runyard.stats.intervals import t_interval
from runyard.stats.moments import Moments

FIRST = 10
"""Completed tasks after which a metric that none of them returned is an error."""


class Budget:
    """Sees every outcome once; knows how many more tasks may be started."""

    def __init__(
        self,
        budget: Mapping[str, float],
        shown: str | None,
        codec: str,
        *,
        done: int,
        seconds: float,
        rows: Iterable[OutcomeRow],
        limit: int | None = None,
        until: Sequence[str] = (),
    ) -> None:
        self._budget = dict(budget)
        self._shown = shown
        self._codec = codec
        self._done = done  # what earlier runs have used
        self._seconds = seconds
        self._limit = limit  # outcomes in all after which this run ends
        names = [name for name in budget if name not in UNITS] + ([shown] if shown else [])
        self._metrics = {name: Moments(order=2) for name in names}
        self._until = tuple(until)  # metrics of the condition that ends the batch
        self._unseen = {*self._metrics, *self._until}
        self._completed = 0
        self._found: dict[str, None] = {}  # metrics of the first outcomes
        if self._metrics or self._unseen:
            self._add(rows)

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Outcomes that came in."""
        self._done += len(rows)
        if self._metrics or self._unseen:
            self._add(rows)

    def recorded(self, done: int) -> None:
        """Note how many outcomes are in the store, including those of other engines."""
        self._done = max(self._done, done)

    def room(self, flying: int, elapsed: float, lanes: int = 1) -> float:
        """How many more tasks may be started while `flying` tasks are under way."""
        least = min((self._left(name, elapsed) for name in self._budget), default=math.inf)
        if self._unseen:
            least = min(least, max(1, max(FIRST, lanes) - self._completed))
        if self._limit is not None:
            least = min(least, self._limit - self._done)
        return max(0.0, least - flying)

    @property
    def is_at_limit(self) -> bool:
        """Whether the run has reached its limit of outcomes."""
        return self._limit is not None and self._done >= self._limit

    def reached(self, elapsed: float) -> str:
        """Which budget is used up, and how far."""
        used = {TASKS: float(self._done)}
        used |= {unit: (self._seconds + elapsed) / size for unit, size in TIMES.items()}
        used |= {name: moments.total for name, moments in self._metrics.items()}
        name = next(name for name in self._budget if self._left(name, elapsed) < 1)
        return f"{name}: {used[name]:.6g} of {self._budget[name]:.6g}"

    @property
    def shown(self) -> tuple[str, float, float] | None:
        """The metric that progress shows: its name, mean, and half of its 95% interval."""
        moments = None if self._shown is None else self._metrics[self._shown]
        if self._shown is None or moments is None or moments.count < 2:
            return None
        return self._shown, moments.mean, t_interval(moments).half

    def missing(self, *, at_the_end: bool = False) -> str | None:
        """A metric that the first outcomes lack; at the end of a batch: that all lack."""
        if self._completed < (1 if at_the_end else FIRST):
            return None
        wanted = (*self._metrics, *self._until)
        return next((name for name in wanted if name in self._unseen), None)

    def error(self, batch: str, missing: str) -> MetricMissing:
        """The error for a missing metric."""
        known = list(self._found)
        tasks = count(self._completed, "completed task")
        if self._completed == 1:
            tasks = "only completed task"
        some = listed(known)
        close = _closest(missing, [name for name in known if name != missing])
        problem = "not a finite number in" if missing in self._found else "missing from"
        wanted, option = "`until`", "--until …"
        if missing in self._budget:
            wanted, option = "the budget", f"--budget {close}=…"
        elif missing == self._shown:
            wanted, option = "the running mean", f"--metric {close}"
        go_on = f"`runyard resume {batch} {option}` continues"
        return MetricMissing(
            f"{wanted} needs the metric {missing!r}, which is {problem} the {tasks} of {batch}",
            hint=f"their metrics: {some or 'none, they return no numbers'}"
            + (f"\ndid you mean {close!r}? {go_on}" if close else "")
            + "\nrecorded outcomes are kept",
        )

    def _left(self, name: str, elapsed: float) -> float:
        """How many more tasks a budget allows."""
        most = self._budget[name]
        if name == TASKS:
            return most - self._done
        if name in TIMES:
            return math.inf if self._seconds + elapsed < TIMES[name] * most else 0
        moments = self._metrics[name]
        left = most - (moments.total if moments.count else 0)
        if left <= 0:
            return 0
        return max(1, left // moments.mean) if moments.count and moments.mean > 0 else math.inf

    def _add(self, rows: Iterable[OutcomeRow]) -> None:
        found: dict[str, list[float]] = {name: [] for name in self._metrics}
        for row in rows:
            if not self._metrics and not self._unseen:
                break
            if row[1] != COMPLETED:
                continue
            self._completed += 1
            if row[3] is None:
                continue
            numbers = dict(leaves(decode_as(self._codec, row[3])))
            if self._unseen:
                self._found |= dict.fromkeys(numbers)
                self._unseen -= {k for k, v in numbers.items() if self._says_something(k, v)}
            for name in found.keys() & numbers.keys():
                found[name].append(numbers[name])
        for name, values in found.items():
            self._metrics[name].add_array(values)

    def _says_something(self, name: str, number: float) -> bool:
        """Whether a number counts as a metric; a budget of NaN would be no limit."""
        return name not in self._budget or math.isfinite(number)


def _closest(name: str, known: list[str]) -> str | None:
    """The known metric that was probably meant: the same field elsewhere, or a similar name."""
    field = name.rpartition(".")[2]
    same = [each for each in known if each.rpartition(".")[2] == field]
    return next(iter(same or get_close_matches(name, known, n=1)), None)
