"""Findings: each metric by group, its distribution, and comparisons of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runyard.errors import UsageError
from runyard.format import count
from runyard.reports.html import blocks, charts
from runyard.reports.html.blocks import Html, element, join, number, paragraph, shown
from runyard.reports.html.context import MOST_GROUPS, ReportContext, Section
from runyard.reports.metrics import histograms

if TYPE_CHECKING:
    from runyard.reports.comparing import Compared
    from runyard.reports.metrics import Group
    from runyard.stats.compare_result import Comparison
    from runyard.stats.intervals import Interval
    from runyard.stats.summary import Summary

BINS = 40
FEW_VALUES = 60
TAIL = 0.005
ALL_PAIRS = 4  # groups; with more of them, each is compared with the first one only
MOST_COMPARED = 12  # charts


def metrics(context: ReportContext) -> Section | None:
    """Each metric by group: its distribution and a table."""
    if not context.metrics or not any(s.count for s in context.whole.summaries.values()):
        return None
    parts: list[Html] = []
    for name in context.metrics:
        if context.whole.summaries[name].count:
            parts += _metric(context, name)
    if context.other_metrics:
        more = context.command("report", context.result.name, "--metric", "NAME")
        parts.append(
            paragraph(
                f"{count(context.other_metrics, 'more metric')} not shown; choose with ",
                blocks.command(more),
                class_="aside",
            )
        )
    return Section("Metrics", join(parts), order=30)


def _metric(context: ReportContext, name: str) -> list[Html]:
    groups = [g for g in context.groups if g.summaries[name].count]
    whole = context.whole.summaries[name]
    percent = f"{100 * context.level:g} %"
    if whole.rate is None:
        rows, heads = _means(context, groups, name), ["mean", f"± {percent}", *_SHAPE, "n"]
        about = f"mean ± {percent} interval of the mean"
    else:
        rows, heads = _rates(context, groups, name), ["rate", percent, "true", "n"]
        about = f"true or false: the rate of true with its {percent} interval"
    if whole.missing:
        about += f"; {count(whole.missing, 'task')} without a value"
    labels = list(groups[0].labels) or [""]
    numbers = range(len(labels), len(labels) + len(heads))
    return [
        element("h3", name),
        _spread(context, groups, name),
        blocks.table([*labels, *heads], rows, numbers=numbers, sortable=len(rows) > 3),
        paragraph(about, class_="aside"),
    ]


_SHAPE = ("sd", "median", "min", "max")


def _means(context: ReportContext, groups: Sequence[Group], name: str) -> list[list[object]]:
    found = [(g, s := g.summaries[name], _interval(context, name, s)) for g in groups]
    halves = [i.half for _, _, i in found if i is not None and i.half > 0]
    places = blocks.decimals(min(halves)) if halves else None
    spreads = [s.moments.sd for _, s, _ in found if s.count > 1 and s.moments.sd > 0]
    wide = blocks.decimals(min(spreads, default=0.0)) or None
    rows = []
    for group, summary, interval in found:
        moments, median = summary.moments, summary.quantiles.median
        half = "" if interval is None else f"± {number(interval.half, places)}"
        shape = (moments.sd, median, moments.minimum, moments.maximum)
        figures = [number(summary.mean, places), half, *(number(v, wide) for v in shape)]
        figures.append(f"{summary.count:,}")
        rows.append([*_named(group), *figures])
    return rows


def _rates(context: ReportContext, groups: Sequence[Group], name: str) -> list[list[object]]:
    rows = []
    for group in groups:
        summary = group.summaries[name]
        interval, rate = summary.interval(context.level), summary.rate
        assert interval is not None
        assert rate is not None
        places = blocks.decimals(interval.half)
        ends = f"{number(interval.low, places)} to {number(interval.high, places)}"
        figures = [number(rate.value, places), ends, f"{rate.successes:,}", f"{rate.total:,}"]
        rows.append([*_named(group), *figures])
    return rows


def _named(group: Group) -> list[object]:
    return [shown(value) for value in group.labels.values()] or ["all tasks"]


def label_of(labels: dict[str, Any]) -> str:
    """A group's coordinates on one line."""
    if len(labels) == 1:
        ((name, value),) = labels.items()
        return shown(value, 40) if name in ("variant", "case") else f"{name} {shown(value, 40)}"
    return ", ".join(f"{name} {shown(value, 24)}" for name, value in labels.items()) or "all tasks"


# Distributions


def _spread(context: ReportContext, groups: Sequence[Group], name: str) -> Html:
    whole = context.whole.summaries[name]
    notes = [_note(context, name, g.summaries[name]) for g in groups]
    if whole.rate is not None:
        return _rate_plot(context, groups, name, notes)
    edges = bin_edges(whole)
    if edges is None or all(g.summaries[name].moments.sd == 0 for g in groups):
        return Html("")
    made = histograms(context.result, name, list(groups[0].labels), edges)
    held = [n for g, n in zip(context.groups, made, strict=True) if g.summaries[name].count]
    scale = charts.Scale.over((edges[0], edges[-1]))
    rows = []
    for group, counts, note in zip(groups, held, notes, strict=True):
        summary = group.summaries[name]
        outside = summary.count - int(counts.sum())
        interval = _interval(context, name, summary)
        low, high = (math.nan, math.nan) if interval is None else (interval.low, interval.high)
        shares = (counts / max(counts.max(), 1)).tolist()
        marks = join(
            (
                charts.outline(scale, edges[0], edges[-1], shares, 32, 2),
                charts.interval(scale, low, summary.mean, high, 42),
            )
        )
        beyond = f", {outside:,} outside" if outside else ""
        rows.append(charts.Row(label_of(group.labels), marks, note + beyond, height=50))
    by = "" if len(rows) == 1 else " by group"
    key = join((charts.sign("diamond"), f" mean, with its {100 * context.level:g} % interval"))
    return charts.chart(f"Distribution of {name}{by}", rows, scale, axis=name, key=key)


def _rate_plot(
    context: ReportContext, groups: Sequence[Group], name: str, notes: Sequence[str]
) -> Html:
    rows = []
    for group, note in zip(groups, notes, strict=True):
        summary = group.summaries[name]
        interval = summary.interval(context.level)
        assert interval is not None
        rows.append(
            charts.Estimate(label_of(group.labels), interval.low, summary.mean, interval.high, note)
        )
    return charts.interval_plot(f"Rate of {name}", rows, axis=f"rate of {name}")


def _interval(context: ReportContext, name: str, summary: Summary) -> Interval | None:
    """The interval of a group's mean; a rate's only where the whole metric is a rate."""
    from runyard.stats.intervals import t_interval

    if context.whole.summaries[name].rate is None:
        return t_interval(summary.moments, context.level) if summary.count > 1 else None
    return summary.interval(context.level)


def _note(context: ReportContext, name: str, summary: Summary) -> str:
    rate = context.whole.summaries[name].rate and summary.rate
    interval = _interval(context, name, summary)
    places = None if interval is None else blocks.decimals(interval.half) or None
    if rate is not None:
        return f"{number(summary.mean, places)}: {rate.successes:,} of {rate.total:,}"
    half = "" if interval is None or not interval.half else f" ± {number(interval.half, places)}"
    return f"{number(summary.mean, places)}{half}, n\u00a0{summary.count:,}"


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
        more = context.command("report", context.result.name, "--metric", "NAME", "--by", "NAME")
        parts.append(
            paragraph(
                f"{count(left_out, 'more comparison')} not shown; choose with ",
                blocks.command(more),
                class_="aside",
            )
        )
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
    title = f"Difference in {name}: significant in {significant} of {len(found)} comparisons"
    if len(found) == 1:
        title = f"Difference in {name}: {'significant' if significant else 'not significant'}"
    correction = found[0].correction
    key = (
        f"difference with its {100 * context.level:g} % interval; significant if it excludes zero; "
        + ("compared in pairs" if found[0].paired else "compared as independent groups")
        + f"; p from {found[0].method}"
        + (f", adjusted for {len(found)} comparisons by {correction}" if correction else "")
    )
    return charts.interval_plot(title, rows, axis=f"difference in {name}", zero=True, key=key)


def in_words(found: Comparison) -> str:
    """The comparison in words, with the sign that the chart shows and no judgement of better."""
    if not found.shown:
        words = found.words()
    else:
        higher = "higher" if found.effect > 0 else "lower"
        words = f"{found.a} is {higher} than {found.b}: {_effect(found)}"
        if found.interval.half > 0:
            places = blocks.decimals(found.interval.half)
            low, high = (number(end, places) for end in (found.interval.low, found.interval.high))
            words += f" ({100 * found.interval.level:g} % CI {low} to {high})"
        words += f", {found.count_words}"
        if found.correction:
            words += f", p adjusted by {found.correction}"
    if left_out := found.left_out_words():
        words = f"{words}. Based on {left_out}"
    return words.replace("p < ", "p\u00a0<\u00a0").replace(" ± ", "\u00a0±\u00a0")


def _effect(found: Comparison) -> str:
    half = found.interval.half
    places = blocks.decimals(half) if half > 0 else None
    size = f"{'+' if found.effect > 0 else ''}{number(found.effect, places)}"
    if half > 0:
        size += f" ± {number(half, places)}"
    p = found.p if found.p_adjusted is None else found.p_adjusted
    chance = "< 0.001" if p < 0.001 else f"= {p:.2g}"
    return f"{size}, " + f"p {chance}".replace(" ", "\u00a0")
