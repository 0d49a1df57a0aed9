"""Mergeable, order-independent statistics: from a stream of outcomes to a figure and its interval.

Everything that takes in values (`add`, `add_array`) also merges (`merge`, `+`), and gives the same
bytes (`to_bytes`) for the same data in any order and any partition.

| to know | use |
| --- | --- |
| mean, spread, shape, extremes | `Moments` |
| quantiles, a histogram | `Quantiles`, `Histogram` |
| how many of how many | `Rate` |
| one total per another | `Ratio` |
| all there is to say of one metric | `Summary` |
| how sure | `t_interval`, `wilson`, `newcombe`, `bootstrap`, `fieller` |
"""

from __future__ import annotations

from runyard.stats.exact import ExactSum
from runyard.stats.histogram import Histogram
from runyard.stats.intervals import Interval, bootstrap, newcombe, t_interval, wilson
from runyard.stats.moments import Moments
from runyard.stats.quantiles import Quantiles
from runyard.stats.rates import Rate
from runyard.stats.ratio import Ratio, fieller
from runyard.stats.summary import Summary, plus_minus, show

__all__ = [
    "ExactSum",
    "Histogram",
    "Interval",
    "Moments",
    "Quantiles",
    "Rate",
    "Ratio",
    "Summary",
    "bootstrap",
    "fieller",
    "newcombe",
    "plus_minus",
    "show",
    "t_interval",
    "wilson",
]
