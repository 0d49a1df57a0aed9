"""Findings: each metric by group, its distribution, and comparisons of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runyard.errors import UsageError
from runyard.format import count
from runyard.reports.html import blocks, charts
from runyard.reports.html.blocks import Html, element, join, number, places_of, shown
from runyard.reports.html.context import MOST_GROUPS, ReportContext, Section
from runyard.reports.metrics import histograms

if TYPE_CHECKING:
    from runyard.reports.comparing import Compared
    from runyard.stats.compare_result import Comparison
    from runyard.stats.intervals import Interval
    from runyard.stats.summary import Summary

BINS = 40
FEW_VALUES = 60
TAIL = 0.005
ALL_PAIRS = 4  # groups; with more of them, each is compared with the first one only
MOST_COMPARED = 12  # charts


class GroupFigures(NamedTuple):
    """One metric of one group."""

    label: str
    cells: list[object]  # its coordinates, in a table
    summary: Summary
    interval: Interval | None  # of its mean; None for a single value


def metrics(context: ReportContext) -> Section | None:
    """Each metric by group: its distribution and a table."""
    parts: list[Html] = []
    for name in context.metrics:
        if context.whole.summaries[name].count:
            parts += _metric(context, name)
    if not parts:
        return None
    if context.other_metrics:
        parts.append(_more(context, count(context.other_metrics, "more metric"), "--metric"))
    return Section("Metrics", join(parts), order=30)


def _more(context: ReportContext, what: str, *options: str) -> Html:
    words = [word for option in options for word in (option, "NAME")]
    command = blocks.command(context.command("report", context.result.name, *words))
    return blocks.aside(f"{what} not shown; choose with ", command)


def _metric(context: ReportContext, name: str) -> list[Html]:
    whole, percent = context.whole.summaries[name], f"{100 * context.level:g}%"
    groups = [
        GroupFigures(
            label_of(group.labels),
            [shown(value) for value in group.labels.values()] or ["all tasks"],
            summary,
            _interval(context, whole, summary),
        )
        for group in context.groups
        if (summary := group.summaries[name]).count
    ]
    if whole.rate is None:
        chart, rows = _distribution(context, groups, name), _means(groups)
        heads = ["mean", f"± {percent}", "sd", "median", "min", "max", "n"]
        about = f"mean ± half the width of its {percent} interval"
    else:
        chart, rows = _rate_plot(groups, name), _rates(groups)
        heads = ["rate", percent, "true", "n"]
        about = f"true or false: the rate of true with its {percent} interval"
    if whole.missing:
        about += f"; {count(whole.missing, 'task')} without a value"
    labels = list(context.groups[0].labels) or [""]
    numbers = range(len(labels), len(labels) + len(heads))
    table = blocks.table([*labels, *heads], rows, numbers=numbers, sortable=len(rows) > 3)
    return [element("h3", name), chart, table, blocks.aside(about)]


def _interval(context: ReportContext, whole: Summary, summary: Summary) -> Interval | None:
    """The interval of a group's mean; a rate's only where the whole metric is a rate."""
    from runyard.stats.intervals import t_interval

    if whole.rate is None:
        return t_interval(summary.moments, context.level) if summary.count > 1 else None
    return summary.interval(context.level)


def _means(groups: Sequence[GroupFigures]) -> list[list[object]]:
    halves = [g.interval.half for g in groups if g.interval is not None and g.interval.half > 0]
    places = places_of(min(halves, default=0.0))
    spreads = [
        s.moments.sd for s in (g.summary for g in groups) if s.count > 1 and s.moments.sd > 0
    ]
    wide = places_of(min(spreads, default=0.0)) or None
    rows = []
    for _, cells, summary, interval in groups:
        moments = summary.moments
        half = "" if interval is None else f"± {number(interval.half, places)}"
        shape = (moments.sd, summary.quantiles.median, moments.minimum, moments.maximum)
        figures = [number(summary.mean, places), half, *(number(v, wide) for v in shape)]
        rows.append([*cells, *figures, f"{summary.count:,}"])
    return rows


def _rates(groups: Sequence[GroupFigures]) -> list[list[object]]:
    rows = []
    for _, cells, summary, interval in groups:
        rate = summary.rate
        assert interval is not None
        assert rate is not None
        places = places_of(interval.half)
        ends = f"{number(interval.low, places)} to {number(interval.high, places)}"
        figures = [number(rate.value, places), ends, f"{rate.successes:,}", f"{rate.total:,}"]
        rows.append([*cells, *figures])
    return rows


def label_of(labels: dict[str, Any]) -> str:
    """A group's coordinates on one line."""
    if len(labels) == 1:
        ((name, value),) = labels.items()
        return shown(value, 40) if name in ("variant", "case") else f"{name} {shown(value, 40)}"
    return ", ".join(f"{name} {shown(value, 24)}" for name, value in labels.items()) or "all tasks"


# Distributions


def _rate_plot(groups: Sequence[GroupFigures], name: str) -> Html:
    rows = []
    for label, _, summary, interval in groups:
        rate = summary.rate
        assert interval is not None
        assert rate is not None
        mean = number(summary.mean, places_of(interval.half))
        note = f"{mean}: {rate.successes:,} of {rate.total:,}"
        rows.append(charts.Estimate(label, interval.low, summary.mean, interval.high, note))
    return charts.interval_plot(f"Rate of {name}", rows, axis=f"rate of {name}")


def _distribution(context: ReportContext, groups: Sequence[GroupFigures], name: str) -> Html:
    edges = bin_edges(context.whole.summaries[name])
    if edges is None or all(group.summary.moments.sd == 0 for group in groups):
        return Html("")
    made = histograms(context.result, name, list(context.groups[0].labels), edges)
    held = [n for g, n in zip(context.groups, made, strict=True) if g.summaries[name].count]
    scale = charts.Scale.over((edges[0], edges[-1]))
    rows = []
    for (label, _, summary, interval), counts in zip(groups, held, strict=True):
        low, high = (math.nan, math.nan) if interval is None else (interval.low, interval.high)
        shares = (counts / max(counts.max(), 1)).tolist()
        bars = charts.outline(scale, edges[0], edges[-1], shares, 32, 2)
        marks = join([bars, charts.interval(scale, low, summary.mean, high, 42)])
        places = None if interval is None else places_of(interval.half)
        note = number(summary.mean, places)
        if interval is not None and interval.half:
            note += f" ± {number(interval.half, places)}"
        note += f", n\u00a0=\u00a0{summary.count:,}"
        if outside := summary.count - int(counts.sum()):
            note += f", {outside:,} outside"
        rows.append(charts.Row(label, marks, note, height=50))
    by = "" if len(rows) == 1 else " by group"
    key = join([charts.sign("diamond"), f" mean, with its {100 * context.level:g}% interval"])
    return charts.chart(f"Distribution of {name}{by}", rows, scale, axis=name, key=key)


def bin_edges(summary: Summary) -> NDArray[np.float64] | None:
    """Edges for a histogram of these values, a far tail left out; None for a single value."""
    low, high = summary.moments.minimum, summary.moments.maximum
    if not low < high or not math.isfinite(high - low):
        return None
    values = summary.quantiles.counts()
    if values and high - low <= FEW_VALUES and all(v.is_integer() for v in values):
        return np.arange(low - 0.5, high + 1.0)
    inner = summary.quantiles.quantiles([TAIL, 1 - TAIL])
    reach = inner[1] - inner[0]
    if reach > 0 and high - low > 4 * reach:
        low, high = max(low, inner[0] - reach / 10), min(high, inner[1] + reach / 10)
    bins = max(5, min(BINS, int(2 * summary.count ** (1 / 2))))
    edges = np.linspace(low, high, bins + 1)
    return edges if bool((np.diff(edges) > 0).all()) else None


# Comparisons


def comparison(context: ReportContext) -> Section | None:
    """Comparisons of groups, metric by metric, in words and as charts."""
    parts: list[Html] = []
    left_out = 0
    for axis in context.axes:
        for name in context.metrics:
            if len(parts) >= MOST_COMPARED:
                left_out += 1
                continue
            found = compared(context, axis, name)
            if found.found:
                parts.append(_comparison(context, axis, name, found))
    if not parts:
        return None
    if left_out:
        more = count(left_out, "more comparison")
        parts.append(_more(context, more, "--metric", "--by"))
    return Section("Comparison", join(parts), order=40)


def compared(context: ReportContext, axis: str, name: str) -> Compared:
    """Every pair of groups of an axis; of many groups, each with the first that has values."""
    from runyard.reports.comparing import Compared, Groups, compare_each, groups_of

    result = context.result
    if not 2 <= len(result.coordinates[axis].values) <= MOST_GROUPS:
        return Compared([], {})
    found = groups_of(result, name, axis)
    plain = axis in ("variant", "case")
    named = {label if plain else f"{axis} {label}": part for label, part in found.parts.items()}
    baseline = None
    if len(named) > ALL_PAIRS:
        held = (np.count_nonzero(np.isfinite(values)) for values in found.values.values())
        baseline = next((label for label, n in zip(named, held, strict=True) if n > 1), None)
    # From the last to the first: differences are later minus earlier.
    groups = Groups(dict(reversed(named.items())), found.paired, name)
    try:
        made = compare_each(groups, name, baseline=baseline, level=context.level)
    except UsageError:  # values that can't be compared
        return Compared([], {})
    return Compared(made.found[::-1], made.missing)


def _comparison(context: ReportContext, axis: str, name: str, compared: Compared) -> Html:
    lines = [in_words(each) for each in compared.found]
    lines += [f"not compared: {reason}" for reason in compared.missing.values()]
    parts = [
        element("h3", f"{name} by {axis}"),
        element("ul", *(element("li", line) for line in lines), class_="words"),
    ]
    if any(each.interval.half > 0 for each in compared.found):
        parts.append(_differences(context, axis, name, compared.found))
    return join(parts)


def _differences(context: ReportContext, axis: str, name: str, found: Sequence[Comparison]) -> Html:
    rows = []
    for each in found:
        label = " − ".join(side.removeprefix(f"{axis} ") for side in (each.a, each.b))
        low, high = each.interval.low, each.interval.high
        rows.append(charts.Estimate(label, low, each.effect, high, _effect(each)))
    significant = sum(each.shown for each in found)
    result = f"significant in {significant} of {len(found)} comparisons"
    if len(found) == 1:
        result = "significant" if significant else "not significant"
    first = found[0]
    key = [
        f"difference with its {100 * context.level:g}% interval",
        f"significant if it excludes zero and p is below {1 - context.level:.4g}",
        "compared in pairs" if first.paired else "compared as independent groups",
        f"p from {first.method}",
    ]
    title, of = f"Difference in {name}: {result}", f"difference in {name}"
    keys = "; ".join(key)
    if first.correction:
        keys += f", adjusted for {len(found)} comparisons by {first.correction}"
    return charts.interval_plot(title, rows, axis=of, zero=True, key=keys)


def in_words(found: Comparison) -> str:
    """The comparison in words, with the sign that the chart shows and no judgement of better."""
    if not found.shown:
        words = found.words()
    else:
        higher = "higher" if found.effect > 0 else "lower"
        words = f"{found.a} is {higher} than {found.b}: {_effect(found)}"
        if found.interval.half > 0:
            places = places_of(found.interval.half)
            low, high = (number(end, places) for end in (found.interval.low, found.interval.high))
            words += f" ({100 * found.interval.level:g}% CI {low} to {high})"
        words += f", {found.count_words}"
        if found.correction:
            words += f", p adjusted by {found.correction}"
    if left_out := found.left_out_words():
        words = f"{words}. Based on {left_out}"
    return words.replace("p < ", "p\u00a0<\u00a0").replace(" ± ", "\u00a0±\u00a0")


def _effect(found: Comparison) -> str:
    half = found.interval.half
    places = places_of(half)
    size = f"{'+' if found.effect > 0 else ''}{number(found.effect, places)}"
    if half > 0:
        size += f" ± {number(half, places)}"
    chance = "< 0.001" if found.p_final < 0.001 else f"= {found.p_final:.2g}"
    return f"{size}, " + f"p {chance}".replace(" ", "\u00a0")
