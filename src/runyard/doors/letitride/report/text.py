"""A simulation as text: the summary and the histogram shown on a terminal."""

from __future__ import annotations

import math

from runyard.doors.letitride.cards.cards import FIVE_CARD_NAMES
from runyard.doors.letitride.report.aggregate import Aggregate, exact_shares
from runyard.format import count
from runyard.reports.html.charts import MOST_TICKS, round_step
from runyard.reports.text import aligned
from runyard.stats import Interval, plus_minus, show

LABELS = {
    "ev_per_hand": "EV per hand, in base bets",
    "main_ev_per_hand": "  main game",
    "bonus_ev_per_hand": "  bonus",
    "element_of_risk": "loss per unit at risk",
    "bonus_edge": "bonus house edge",
}
_BLOCKS = " ▏▎▍▌▋▊▉█"


def summary(found: Aggregate) -> str:
    """The main figures with their intervals, next to the exact ones."""
    win, ruin = found.win_rate(), found.ruin_rate()
    moments = found.profit.moments
    low, median, high = found.profit.quantiles.quantiles([0.05, 0.5, 0.95])
    seats = f" with {found.seats} seats" if found.seats > 1 else ""
    lines = [
        f"{count(found.sessions, 'session')}{seats}, {count(found.hands, 'hand')}",
        f"  sessions won   {_share(found.outcomes['win'], found.rows, win)}",
        f"  out of money   {_share(int(found.stops[-1]), found.rows, ruin)}",
        f"  profit, $      mean {show(moments.mean)}, median {show(median)}, "
        f"5th percentile {show(low)}, 95th {show(high)}",
        "",
    ]
    return "\n".join([*lines, *(f"  {line}" for line in figure_lines(found))])


def _share(count: int, total: int, interval: Interval) -> str:
    return f"{count / total:.2%} ({interval.low:.2%} to {interval.high:.2%})"


def figure_lines(found: Aggregate) -> list[str]:
    """A table of each ratio next to its exact figure."""
    figures = found.figures()
    if not found.ratios["bonus_edge"].count or "bonus_edge" not in figures:
        for name in ("main_ev_per_hand", "bonus_ev_per_hand"):
            figures.pop(name, None)
    rows = []
    for name, told in figures.items():
        value, low, high = (told[key] or 0.0 for key in ("value", "low", "high"))
        exact, z = told.get("exact"), told.get("z")
        rows.append(
            [
                LABELS[name],
                plus_minus(value, (high - low) / 2),
                "" if exact is None else f"{exact:z.6f}",
                "" if z is None else f"{z:+z.2f}",
            ]
        )
    chi, p = found.chi_square()
    rows.append(["hand frequencies", f"χ² {chi:.1f}", "", f"p {p:.2g}"])
    return aligned(
        ["", "simulated (95%)", "exact", "difference, in standard errors"], rows, (1, 2, 3)
    )


def histogram_text(found: Aggregate, width: int = 50) -> str:
    """A histogram of session profits as text; the outer bars include the extreme 1%."""
    edges, counts = profit_bins(found)
    most = max(counts) or 1
    names = [f"{edge:+,.0f}" for edge in edges[:-1]]
    longest = max(9, *map(len, names))
    lines = [
        f"  {name:>{longest}}  {_bar(count / most, width)} {count / found.rows:.1%}"
        for name, count in zip(names, counts, strict=True)
    ]
    return "\n".join(["session profit in $, from", *lines])


def profit_bins(found: Aggregate, most: int = 20) -> tuple[list[float], list[int]]:
    """Edges of at most `most` bins for session profits, and the count in each.

    They span 99% of the sessions; the rest is counted in the outer bins.
    """
    low, high = found.profit.quantiles.quantiles([0.005, 0.995])
    step = round_step(max(high - low, 1.0) * MOST_TICKS / most)
    first, last = math.floor(low / step), max(math.floor(high / step), math.floor(low / step))
    counts = [0] * (last - first + 1)
    for value, times in _values(found):
        place = math.floor(value / step) - first
        counts[min(max(place, 0), len(counts) - 1)] += times
    return [(first + at) * step for at in range(len(counts) + 1)], counts


def _values(found: Aggregate) -> list[tuple[float, int]]:
    """Session profits with their counts: exact if there are few values, else in fine bins."""
    exact = found.profit.quantiles.counts()
    if exact is not None:
        return list(exact.items())
    edges, counts = found.profit.quantiles.histogram(20_000)
    middles = (edges[:-1] + edges[1:]) / 2
    return list(zip(middles.tolist(), counts.tolist(), strict=True))


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def hand_rows(found: Aggregate) -> list[tuple[str, int, float, float]]:
    """Each hand: its name, count, share, and exact share."""
    total = max(1, int(found.hand_counts.sum()))
    return [
        (name.replace("_", " "), int(count), int(count) / total, float(share))
        for name, count, share in zip(
            FIVE_CARD_NAMES, found.hand_counts, exact_shares(), strict=True
        )
    ]
