"""How far two raters agree beyond chance: Cohen's kappa, plain and weighted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from runyard.errors import UsageError
from runyard.stats.intervals import Floats, Interval, normal_quantile

Weights = Literal["none", "linear", "quadratic"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two raters' agreement on the same items."""

    items: int  # that both have rated
    missing: int  # that one of them has not
    observed: float  # the share of equal ratings; with weights, of the weight
    expected: float  # the same if they rated independently
    kappa: float  # 1: always equal; 0: as by chance; NaN: both gave one rating only
    interval: Interval | None = None  # of kappa

    def words(self) -> str:
        """It in a line."""
        left_out = f"; {self.missing:,} without both ratings" if self.missing else ""
        if math.isnan(self.kappa):
            return f"kappa is undefined: all {self.items:,} ratings are the same{left_out}"
        ends = ""
        if self.interval is not None:
            ends = f" (95% CI {self.interval.low:.2f} to {self.interval.high:.2f})"
        return (
            f"kappa {self.kappa:.2f}{ends}, {self.observed:.0%} equal on {self.items:,} "
            f"items{left_out}"
        )

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        data = asdict(self)
        data["kappa"] = None if math.isnan(self.kappa) else self.kappa
        return {**data, "words": self.words()}


def cohen_kappa(
    first: Sequence[Hashable | None], second: Sequence[Hashable | None], weights: Weights = "none"
) -> Agreement:
    """Cohen's kappa of two raters; None stands for a rating that is missing.

    Weights are for ordered ratings (numbers): a near miss counts less than a far one. The interval
    is the large-sample one (Fleiss, Cohen and Everitt 1969), for kappa without weights.
    """
    if len(first) != len(second):
        raise UsageError(
            f"{len(first)} ratings can't be matched with {len(second)}", hint="rate the same items"
        )
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not pairs:
        raise UsageError("no item has both ratings", hint="label some of the cells that were rated")
    labels = list(dict.fromkeys(label for pair in pairs for label in pair))
    if weights != "none":
        labels = sorted(labels)  # type: ignore[type-var]
    at = {label: number for number, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)))
    for a, b in pairs:
        table[at[a], at[b]] += 1
    table /= len(pairs)
    credit = _credit(labels, weights)
    chance = np.outer(table.sum(axis=1), table.sum(axis=0))
    observed, expected = float((table * credit).sum()), float((chance * credit).sum())
    kappa = math.nan if expected >= 1 else (observed - expected) / (1 - expected)
    interval = None
    if weights == "none" and not math.isnan(kappa):
        half = normal_quantile(0.95) * _standard_error(table, kappa, len(pairs))
        interval = Interval(max(-1.0, kappa - half), min(1.0, kappa + half), 0.95, "normal")
    return Agreement(len(pairs), len(first) - len(pairs), observed, expected, kappa, interval)


def _credit(labels: Sequence[Any], weights: Weights) -> Floats:
    """How much two ratings count as equal, from 0 to 1."""
    if weights == "none" or len(labels) < 2:
        return np.eye(len(labels))
    values = np.array(labels, dtype=np.float64)
    apart = np.abs(values[:, None] - values[None, :]) / (values.max() - values.min())
    credit: Floats = 1 - (apart if weights == "linear" else apart**2)
    return credit


def _standard_error(table: Floats, kappa: float, items: int) -> float:
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    chance = float(rows @ columns)
    on = (np.diag(table) * (1 - (rows + columns) * (1 - kappa)) ** 2).sum()
    crossed = table * (columns[:, None] + rows[None, :]) ** 2
    off = (crossed.sum() - np.trace(crossed)) * (1 - kappa) ** 2
    rest = (kappa - chance * (1 - kappa)) ** 2
    return math.sqrt(max(0.0, float(on + off - rest)) / items) / (1 - chance)
