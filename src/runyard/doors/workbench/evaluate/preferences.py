"""Which of two variants a judge prefers, case by case."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from runyard.doors.workbench.evaluate.judge import PairJudge, Preference
from runyard.doors.workbench.evaluate.scores import AT_ONCE
from runyard.format import count
from runyard.stats.compare_tests import mcnemar_p
from runyard.stats.intervals import Interval, t_interval
from runyard.stats.moments import Moments


@dataclass(frozen=True)
class Preferences:
    """A judge's choices between two variants, over cases."""

    a: str
    b: str
    wins: int  # cases in which `a` is preferred
    losses: int
    ties: int
    missing: int  # pairs of cells that could not be judged
    inconsistent: int  # judgements that changed with the order
    rate: float | None  # the mean preference for `a`: 1 always, 0 never
    interval: Interval | None
    p: float  # of the sign test
    by_case: dict[str, float] = field(default_factory=dict)

    def words(self) -> str:
        """It in a line."""
        won = f"{self.a} is preferred to {self.b} in {count(self.wins, 'case')}"
        text = f"{won}, {self.b} in {self.losses:,}, neither in {self.ties:,} (p = {self.p:.2g})"
        if self.inconsistent:
            text += f"; {count(self.inconsistent, 'judgement')} changed with the order"
        if self.missing:
            text += f"; {self.missing:,} missing"
        return text


def prefer(pairs: Sequence[tuple[Any, Any]], judge: PairJudge, a: str, b: str) -> Preferences:
    """Judge pairs of cells, the first of `a` and the second of `b`, on the same case."""

    def judged(pair: tuple[Any, Any]) -> Preference:
        first, second = pair
        if first.status != "completed" or second.status != "completed":
            return Preference(None, True, (f"{first.status}, {second.status}",))
        name = f"pair/{a}/{b}/{first.case}/{first.repetition}"
        return judge.prefer(first.inputs, first.output, second.output, first.expected, cell=name)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        calls = [threads.submit(contextvars.copy_context().run, judged, pair) for pair in pairs]
        found = [call.result() for call in calls]
    values: dict[str, list[float]] = {}
    for (first, _), each in zip(pairs, found, strict=True):
        if each.value is not None:
            values.setdefault(first.case, []).append(each.value)
    by_case = {case: fmean(each) for case, each in values.items()}
    wins, losses = (sum(v > 0.5 for v in by_case.values()), sum(v < 0.5 for v in by_case.values()))
    moments = Moments(list(by_case.values()), order=2)
    return Preferences(
        a, b, wins, losses, len(by_case) - wins - losses,
        missing=sum(each.value is None for each in found),
        inconsistent=sum(not each.consistent for each in found),
        rate=moments.mean if moments.count else None,
        interval=t_interval(moments) if moments.count > 1 else None,
        p=mcnemar_p(wins, losses), by_case=by_case,
    )  # fmt: skip
