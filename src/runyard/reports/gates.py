"""Gates: conditions that results must meet, judged for each side that is compared.

A gate that names a side (`new.failed < 1%`, `new >= old`) is about that side. Every other figure is
evaluated for each side, and `p` for each comparison; the gate holds if it holds for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Unpack

import numpy as np

from runyard.format import count
from runyard.reports.comparing import Compared, CompareOptions, Groups, compare_each
from runyard.reports.verdict import SummaryValues, check_rates
from runyard.spec.status import COMPLETED, FAILED
from runyard.stats.compare_many import matches
from runyard.stats.compare_result import Comparison
from runyard.stats.conditions import Condition, Scope, Verdict
from runyard.stats.conditions_terms import Bare, Difference, Known, Share, Statistic
from runyard.stats.summary import Summary

SHOWN = 5
"""How many failing sides a text names."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The result of a gate."""

    gate: str
    each: tuple[tuple[str, Verdict], ...]  # by side or comparison, if there are several

    @property
    def holds(self) -> bool:
        """Whether it holds for all of them."""
        return all(verdict.holds for _, verdict in self.each)

    @property
    def known(self) -> bool:
        """Whether it could be judged for all of them."""
        return all(verdict.known for _, verdict in self.each)

    @property
    def text(self) -> str:
        """The condition with its figures; if it fails, for the sides that it fails for."""
        shown = [each for each in self.each if each[1].holds == self.holds]
        texts = [f"{label}: {v.text}" if label else v.text for label, v in shown[:SHOWN]]
        if len(shown) > SHOWN:
            texts.append(f"and {len(shown) - SHOWN:,} more")
        if len(shown) < len(self.each):
            texts.append(f"it holds for {len(self.each) - len(shown):,} of {len(self.each):,}")
        return "; ".join(texts)

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON values; a figure that does not exist is null."""
        each = [
            {
                "for": label or None,
                "holds": verdict.holds,
                "known": verdict.known,
                "text": verdict.text,
                "figures": {k: v if math.isfinite(v) else None for k, v in verdict.figures.items()},
            }
            for label, verdict in self.each
        ]
        return {
            "gate": self.gate, "holds": self.holds, "known": self.known, "text": self.text,
            "each": each,
        }  # fmt: skip


class Gates:
    """Gates on what is compared; unknown names are refused before anything is compared."""

    def __init__(
        self, conditions: Mapping[str, Condition], groups: Groups, **options: Unpack[CompareOptions]
    ) -> None:
        self._groups = groups
        self._options = options
        metric = groups.metric
        self._pairs = matches(groups.parts, options.get("baseline")) if metric is not None else []
        scope = Scope(groups.parts, groups.metrics or None, self._pairs, metric)
        self._conditions = {text: given.within(scope) for text, given in conditions.items()}

    def judge(self, compared: Compared) -> list[GateVerdict]:
        """Judge each gate; `compared` has the comparisons of the groups."""
        return [
            GateVerdict(text, tuple(self._each(condition, compared)))
            for text, condition in self._conditions.items()
        ]

    def _each(self, condition: Condition, compared: Compared) -> Iterator[tuple[str, Verdict]]:
        """The verdict for each side, each comparison, or each side of each comparison."""
        parts = self._groups.parts
        sides = _Sides(self._groups, self._options, compared, condition)
        for pair in self._pairs if condition.is_of_each_pair else [None]:
            for label in (pair or parts) if condition.is_of_each else [""]:
                values = sides.of(label or next(iter(parts)))
                verdict = condition.evaluate(values, sides, pair)
                reasons = sides.reasons(condition, verdict, label, pair)
                if not verdict.known and reasons:
                    verdict = replace(verdict, text=f"{verdict.text} ({'; '.join(reasons)})")
                about = [label] if label and len(parts) > 1 else []
                if pair is not None and len(self._pairs) > 1:
                    about.append(" - ".join(pair))
                yield ", ".join(about), verdict


class _Sides:
    """The figures of the groups and of their differences, as one condition asks for them."""

    def __init__(
        self, groups: Groups, options: CompareOptions, compared: Compared, condition: Condition
    ) -> None:
        self._groups = groups
        self._options = options
        self._rates = condition.rates()
        self._values: dict[str, SummaryValues] = {}
        self._found = {options.get("level", 0.95): _by_pair(compared.found)}
        self._missing = compared.missing

    def of(self, label: str) -> SummaryValues:
        """The figures of one group by itself."""
        if label not in self._values:
            part = self._groups.parts[label]

            @cache
            def summary(metric: str) -> Summary:
                is_rate = metric in self._rates or part.is_rate(metric)
                return Summary(part.values(metric), rate=is_rate)

            check_rates(self._rates, summary)
            shares = part.share(FAILED), part.share(COMPLETED)
            self._values[label] = SummaryValues(summary, *shares)
        return self._values[label]

    def mean(self, label: str) -> float:
        """A group's mean of the metric that is compared."""
        return self._groups.mean(label)

    def difference(self, figure: str, first: str, second: str, level: float | None) -> float:
        """A figure of the comparison of two groups, in either order."""
        found = self._at(level)
        sign = 1.0 if (first, second) in found else -1.0
        made = found.get((first, second)) or found.get((second, first))
        if made is None:
            return math.nan
        if figure == "p":
            return made.p if made.p_adjusted is None else made.p_adjusted
        if figure == "effect":
            return sign * made.effect
        low, high = sorted((sign * made.interval.low, sign * made.interval.high))
        return {"ci": made.interval.half, "low": low, "high": high}[figure]

    def reasons(
        self, condition: Condition, verdict: Verdict, label: str, pair: tuple[str, str] | None
    ) -> list[str]:
        """Why figures are missing."""
        lacking = [
            term for term in condition.terms() if math.isnan(verdict.figures.get(str(term), 0.0))
        ]
        found = [self._reason(term, label, pair) for term in lacking]
        return list(dict.fromkeys(found)) or ["it divides by zero"]

    def _reason(self, term: Known, label: str, pair: tuple[str, str] | None) -> str:
        if isinstance(term, Share):
            return f"no task of {term.label or label} has ended"
        if isinstance(term, Difference):
            pair = term.first, term.second
        elif isinstance(term, Statistic):
            return self._few(term.label or label, term.metric)
        elif isinstance(term, Bare) and term.meaning == "side":
            return self._few(term.name, str(self._groups.metric))
        elif pair is None:
            return self._few(label, str(term))
        assert pair is not None
        return self._missing.get(pair) or self._missing.get(pair[::-1], "they are not compared")

    def _few(self, label: str, metric: str) -> str:
        part = self._groups.parts[label]
        finite = np.isfinite(part.values(metric))
        side = part.side(finite, finite)
        values = f"{count(side.compared, 'value')} of {metric}"
        return f"{label} has {values}" + (f": {side.words(label)}" if side.left_out else "")

    def _at(self, level: float | None) -> dict[tuple[str, str], Comparison]:
        """The comparisons with intervals at a level; None for the existing ones."""
        if level is None:
            return next(iter(self._found.values()))
        if level not in self._found:
            options: CompareOptions = {**self._options, "level": level}
            found = compare_each(self._groups, str(self._groups.metric), **options).found
            self._found[level] = _by_pair(found)
        return self._found[level]


def _by_pair(found: Sequence[Comparison]) -> dict[tuple[str, str], Comparison]:
    return {(comparison.a, comparison.b): comparison for comparison in found}
