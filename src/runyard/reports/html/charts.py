"""Charts as HTML rows with inline SVG: labels are text of the page, only marks are drawn.

    label   │ marks over a shared scale        │ figures
    label   │ marks                            │ figures
            └─ ticks ──────────────────────────┘

Positions are shares of the width, so a chart fits any screen without scripts and its text keeps its
size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from runyard.format import count, duration
from runyard.reports.html.blocks import Html, element, join, number

MOST_TICKS = 5
NARROWEST = 260
"""Pixels across the narrowest chart, on a phone."""

_LETTER = 7.5  # pixels across a figure of a tick's label, in a wide font
_APART = 8  # between two labels
_BEYOND = 20  # how far a label may reach over an end of the scale
_WIDE = 1000  # units across in which paths are drawn


@dataclass(frozen=True)
class Scale:
    """From values to places between left and right."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    log: bool = False
    width: float = NARROWEST  # pixels that the labels have to fit into

    @classmethod
    def over(
        cls,
        values: Iterable[float],
        *,
        zero: bool = False,
        margin: float = 0.02,
        width: float = NARROWEST,
    ) -> Scale:
        """A linear scale that shows all of these, with round ticks."""
        finite = [v for v in values if math.isfinite(v)] + ([0.0] if zero else [])
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        if low == high:
            pad = abs(low) * 0.1 or 0.5
            low, high = low - pad, high + pad
        pad = (high - low) * margin
        low -= 0.0 if zero and low == 0 else pad
        high += 0.0 if zero and high == 0 else pad
        step = round_step(high - low)
        scale = cls._stepped(low, high, step, width)
        while not scale.has_room():
            step = round_step(1.01 * MOST_TICKS * step)  # the next one up
            wider = cls._stepped(low, high, step, width)
            if not wider.ticks:
                return replace(scale, ticks=scale.ticks[:1], labels=scale.labels[:1])
            scale = wider
        return scale

    @classmethod
    def _stepped(cls, low: float, high: float, step: float, width: float) -> Scale:
        head = round(step / 10.0 ** math.floor(math.log10(step) + 1e-9), 3)
        places = max(0, -math.floor(math.log10(step) + 1e-9) + (head == 2.5))
        ticks = [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
        labels = [number(tick, min(places, 9)) for tick in ticks]
        return cls(low, high, tuple(ticks), tuple(labels), width=width)

    @classmethod
    def of_seconds(cls, low: float, high: float) -> Scale:
        """A logarithmic scale for time spans, with a tick at powers of ten."""
        low = max(low, 1e-7)
        first = math.floor(math.log10(low))
        last = max(math.ceil(math.log10(max(high, low))), first + 1)
        for stride in range(math.ceil((last - first) / MOST_TICKS), last - first + 2):
            ticks = tuple(10.0**k for k in range(first, last + 1, stride))
            labels = tuple(_short_duration(t) for t in ticks)
            scale = cls(10.0**first, 10.0**last, ticks, labels, log=True)
            if scale.has_room():
                break
        return scale

    def share(self, value: float) -> float:
        """The position of a value: 0 left, 1 right; clipped at the edges."""
        if self.log:
            value, low, high = (math.log10(max(v, 1e-12)) for v in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def has_room(self) -> bool:
        """Whether the labels don't overlap."""
        ends = [self._ends(*pair) for pair in zip(self.ticks, self.labels, strict=True)]
        return all(left[1] + _APART <= right[0] for left, right in pairwise(ends))

    def anchor(self, tick: float, label: str) -> str:
        """Which part of a label stands at its tick: the middle, unless it would reach too far."""
        middle, half = self.width * self.share(tick), _LETTER * len(label) / 2
        if middle - half < -_BEYOND:
            return "start"
        return "end" if middle + half > self.width + _BEYOND else "middle"

    def _ends(self, tick: float, label: str) -> tuple[float, float]:
        """From where to where a label reaches."""
        place, width = self.width * self.share(tick), _LETTER * len(label)
        left = place - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor(tick, label)]
        return left, left + width

    def at(self, value: float) -> str:
        """The same for an attribute."""
        return f"{100 * self.share(value):.2f}%"


def round_step(span: float) -> float:
    """The least of 1, 2, 2.5 and 5 times a power of ten that gives few ticks."""
    power = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    return next(m * power for m in (1, 2, 2.5, 5, 10, 20) if span / (m * power) <= MOST_TICKS)


def _short_duration(seconds: float) -> str:
    if seconds >= 3600:
        return f"{number(seconds / 3600)} h"
    if seconds >= 1:
        return f"{number(seconds)} s"
    value, unit = duration(seconds).split(" ")
    return f"{float(value):g} {unit}"


@dataclass(frozen=True)
class Row:
    """One line of a chart."""

    label: object
    marks: Html
    note: object = ""
    height: int = 30
    spoken: str = ""  # what the marks show, for screen readers


def chart(
    title: object,
    rows: Sequence[Row],
    scale: Scale,
    *,
    axis: str = "",
    key: object = "",
    zero: bool = False,
) -> Html:
    """Rows over one scale, with the ticks below; `key` explains the marks in words."""
    lines = [(tick, "grid") for tick in scale.ticks] + ([(0.0, "zero")] if zero else [])
    grid = join(_line(kind, scale.at(at), scale.at(at), 0, "100%") for at, kind in lines)
    ticks = [
        element("text", label, x=scale.at(tick), y=13, text_anchor=scale.anchor(tick, label))
        for tick, label in zip(scale.ticks, scale.labels, strict=True)
    ]
    under = element("div", element("svg", *ticks, height=18, aria_hidden="true"), class_="ticks")
    return element(
        "figure",
        element("figcaption", title),
        *(_row(row, grid) for row in rows),
        element("div", under, element("div", axis, class_="axis"), class_="row scale"),
        element("p", key, class_="key") if key else "",
        class_="chart",
    )


def _row(row: Row, grid: Html) -> Html:
    spoken = row.spoken or f"{row.label}: {row.note}"
    return element(
        "div",
        element("div", row.label, class_="label"),
        element("svg", grid, row.marks, height=row.height, role="img", aria_label=spoken),
        element("div", row.note, class_="note"),
        class_="row",
    )


def _line(kind: str, x1: str, x2: str, y1: object, y2: object) -> Html:
    return element("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)


# Marks


def outline(
    scale: Scale, low: float, high: float, shares: Sequence[float], height: float, top: float = 0.0
) -> Html:
    """Bars of equal width from one value to another, each a share of the height, as one shape."""
    left, width = scale.share(low), scale.share(high) - scale.share(low)
    step = _WIDE / max(1, len(shares))
    steps, level = [], 0
    for at, share in enumerate(shares):
        now = round(100 * min(1.0, max(0.0, share)))
        if share > 0 and not now:
            now = 1  # a few must be visible
        if now != level:
            steps.append(f"H{f'{at * step:.1f}'.removesuffix('.0')}V{100 - now}")
            level = now
    return element(
        "svg", element("path", class_="bars", d=f"M0 100{''.join(steps)}H{_WIDE}V100Z"),
        x=f"{100 * left:.2f}%", y=f"{top:g}", width=f"{100 * width:.2f}%", height=f"{height:g}",
        viewBox=f"0 0 {_WIDE} 100", preserveAspectRatio="none",
    )  # fmt: skip


def span(
    scale: Scale,
    low: float,
    high: float,
    y: float,
    height: float,
    kind: str = "bar",
    title: str = "",
) -> Html:
    """A bar from one value to another."""
    width = 100 * (scale.share(high) - scale.share(low))
    apart = " apart" if width > 0.5 else ""  # room for a seam between neighbours
    return element(
        "rect", _tooltip(title), class_=kind + apart, x=scale.at(low),
        width=f"{max(width, 0.15):.2f}%", y=f"{y:g}", height=f"{height:g}",
    )  # fmt: skip


def interval(scale: Scale, low: float, middle: float, high: float, y: float) -> Html:
    """A whisker with a diamond at its middle."""
    parts = []
    if math.isfinite(low) and math.isfinite(high):
        left, right = scale.at(low), scale.at(high)
        parts = [_line("whisker", left, right, f"{y:g}", f"{y:g}")]
        parts += [_line("whisker", x, x, f"{y - 4:g}", f"{y + 4:g}") for x in (left, right)]
    return join([*parts, mark("diamond", scale.at(middle), y)])


SHAPES = {
    "diamond": "M0-5L5 0L0 5L-5 0Z",
    "cross": "M-4-4L4 4M-4 4L4-4",
    "triangle": "M0-4L4.5 4H-4.5Z",
    "circle": "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z",
    "square": "M-4-4H4V4H-4Z",
}
"""Marks that differ by shape, so that none depends on colour."""


def mark(shape: str, x: str, y: float, title: str = "") -> Html:
    """One of `SHAPES` at a place."""
    return element("svg", _shape(shape), _tooltip(title), class_="mark", x=x, y=f"{y:g}")


def sign(shape: str) -> Html:
    """One of `SHAPES` for a line of text, as in a key."""
    return element(
        "svg", _shape(shape), class_="sign", width=12, height=12, viewBox="-6 -6 12 12",
        aria_hidden="true",
    )  # fmt: skip


def _shape(name: str) -> Html:
    return element("path", class_=name, d=SHAPES[name])


def _tooltip(text: str) -> Html | str:
    return element("title", text) if text else ""


# Whole charts


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval, under a label."""

    label: object
    low: float
    middle: float
    high: float
    note: object = ""


def interval_plot(
    title: object, rows: Sequence[Estimate], *, axis: str = "", zero: bool = False, key: object = ""
) -> Html:
    """Figures with their intervals, one under the other."""
    scale = Scale.over((v for r in rows for v in (r.low, r.middle, r.high)), zero=zero, margin=0.05)
    lines = [Row(r.label, interval(scale, r.low, r.middle, r.high, 15), r.note) for r in rows]
    return chart(title, lines, scale, axis=axis, zero=zero, key=key)


def bar_chart(
    title: object, bars: Sequence[tuple[object, float, object]], *, axis: str = ""
) -> Html:
    """Labels with a bar from zero and a note each."""
    scale = Scale.over((value for _, value, _ in bars), zero=True)
    rows = [
        Row(label, span(scale, min(0.0, value), max(0.0, value), 8, 14), note)
        for label, value, note in bars
    ]
    return chart(title, rows, scale, axis=axis, zero=True)


def histogram(
    title: object, edges: Sequence[float], counts: Sequence[float], *, axis: str = ""
) -> Html:
    """The distribution of values, over bins of equal width."""
    scale = Scale.over((edges[0], edges[-1]), margin=0.0)
    most = max(counts, default=0) or 1
    marks = outline(scale, edges[0], edges[-1], [c / most for c in counts], 70, 5)
    total = int(sum(counts))
    spoken = f"{title}: {count(total, 'value')} from {number(edges[0])} to {number(edges[-1])}"
    row = Row("", marks, f"n = {total:,}", height=80, spoken=spoken)
    return chart(title, [row], scale, axis=axis)
