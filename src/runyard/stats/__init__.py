"""Statistics of outcomes that no order of arrival changes.

Sums are exact and counts are integers, so values added in any order and in any pieces give the
same digits.

| question | use |
| --- | --- |
| mean, spread, shape, extremes | `Moments` |
| quantiles | `Quantiles` |
| successes out of a total | `Rate` |
| everything about one metric | `Summary` |
| how certain | `t_interval`, `wilson`, `newcombe` |
| which is better | `compare.compare` |
| what k attempts achieve | `passes.pass_at_k`, `passes.pass_all_k` |
| do two raters agree | `agreement.cohen_kappa` |
| does a condition hold | `conditions.parse` |
| when to stop adding replicates | `stopping.ConfidenceSequence`, `stopping.RateSequence` |
"""

from __future__ import annotations

from runyard.format import plus_minus, show
from runyard.stats.intervals import Interval, Rate, newcombe, t_interval, wilson
from runyard.stats.moments import Moments
from runyard.stats.quantiles import Quantiles
from runyard.stats.summary import Summary

__all__ = [
    "Interval",
    "Moments",
    "Quantiles",
    "Rate",
    "Summary",
    "newcombe",
    "plus_minus",
    "show",
    "t_interval",
    "wilson",
]
