"""Charts as files: SVG drawn here, and HTML or PNG made from it.

A chart is a few shapes over two axes, without external resources.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from runyard.doors.letitride.config.model import StrategyConfig, StrategyName
from runyard.doors.letitride.config.output import ChartConfig
from runyard.doors.letitride.exact.answers import exact_answer
from runyard.doors.letitride.game.strategies import strategy_of
from runyard.doors.letitride.report.aggregate import Aggregate
from runyard.doors.letitride.report.text import hand_rows, profit_bins
from runyard.errors import UsageError
from runyard.format import cut
from runyard.reports.html.blocks import Html, element, join, number
from runyard.reports.html.charts import Scale
from runyard.spaces import whole_file

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 150, 40, 48, 48
FONTS = "Arial, Helvetica, Liberation Sans, DejaVu Sans, Noto Sans, Verdana, sans-serif"
SVG_DPI = 96
LONGEST_TITLE = 60
SAMPLE = 20
"""Sessions whose bankroll is drawn by default."""

TITLES = {
    "session_outcomes_histogram": "Session profit",
    "bankroll_trajectory": "Bankroll, hand by hand",
    "hand_frequency": "Frequency of each hand, and the exact one (line)",
    "bonus_impact": "Main game and bonus in the profit of a session",
    "strategy_comparison": "Exact EV of strategies under this paytable",
}
BankrollPaths = Sequence[Sequence[float]]
_INK, _BAR, _MARK, _GRID = "#1f2933", "#3b6ea5", "#c2410c", "#d5dbe1"


@dataclass(frozen=True)
class PlotArea:
    """The axes of a chart, which convert values to positions."""

    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        """The distance from the left."""
        return round(LEFT + self.across.share(value) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """The distance from the top."""
        return round(HEIGHT - BOTTOM - self.up.share(value) * (HEIGHT - TOP - BOTTOM), 1)


def chart(config: ChartConfig, found: Aggregate, paths: Callable[[int], BankrollPaths]) -> Html:
    """Draw one chart as SVG; `paths` returns the bankrolls of a number of sessions."""
    title = config.title or TITLES[config.type]
    if config.type == "session_outcomes_histogram":
        return profits(title, found)
    if config.type == "hand_frequency":
        return hands(title, found)
    if config.type == "bonus_impact":
        return bonus_impact(title, found)
    if config.type == "strategy_comparison":
        return strategies(title, found)
    return trajectories(title, paths(config.sample_sessions or SAMPLE))


def profits(title: str, found: Aggregate) -> Html:
    """Draw the distribution of session profits."""
    edges, counts = profit_bins(found, 40)
    shares = [count / found.rows for count in counts]
    frame = PlotArea(_across(edges, margin=0.0), _upright(shares))
    base = frame.y(0.0)
    bars = [
        _box(frame.x(low) + 0.5, frame.y(share), max(frame.x(high) - frame.x(low) - 1, 0.5),
             base - frame.y(share))
        for low, high, share in zip(edges, edges[1:], shares, strict=False)
    ]  # fmt: skip
    zero = _line(frame.x(0.0), TOP, frame.x(0.0), base, _MARK) if edges[0] < 0 < edges[-1] else ""
    return _drawn(title, [*_grid(frame, percent=True), *bars, zero], "profit of a session, $")


def trajectories(title: str, paths: BankrollPaths) -> Html:
    """Draw the bankrolls of some sessions, hand by hand."""
    longest = max(len(path) for path in paths)
    frame = PlotArea(
        _across((0, max(1, longest - 1)), margin=0.0),
        _upright(value for path in paths for value in path),
    )
    lines = [
        element("polyline",
                points=" ".join(f"{frame.x(at)},{frame.y(v)}" for at, v in enumerate(path)),
                fill="none", stroke=_BAR, stroke_width=1.2, stroke_opacity=0.55)
        for path in paths
    ]  # fmt: skip
    start = _line(LEFT, frame.y(paths[0][0]), WIDTH - RIGHT, frame.y(paths[0][0]), _MARK)
    return _drawn(title, [*_grid(frame), start, *lines], "hands played; bankroll in $")


def hands(title: str, found: Aggregate) -> Html:
    """Draw each hand's share on a log scale, with a mark at the exact one."""
    rows = hand_rows(found)
    scale = _powers([exact for *_, exact in rows])
    height = (HEIGHT - TOP - BOTTOM) / len(rows)
    parts: list[object] = []
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        x = LEFT + scale.share(tick) * (WIDTH - LEFT - RIGHT)
        parts += [_line(x, TOP, x, HEIGHT - BOTTOM, _GRID), _text(x, HEIGHT - 28, label, "middle")]
    for at, (name, count, share, exact) in enumerate(rows):
        y = TOP + at * height
        parts.append(_text(LEFT - 8, y + height * 0.7, name, "end"))
        if count:
            width = scale.share(share) * (WIDTH - LEFT - RIGHT)
            parts.append(_box(LEFT, y + 4, max(width, 1), height - 8))
        x = LEFT + scale.share(exact) * (WIDTH - LEFT - RIGHT)
        parts.append(_line(x, y + 2, x, y + height - 2, _MARK, 2))
    return _drawn(title, parts, "share of hands")


def bonus_impact(title: str, found: Aggregate) -> Html:
    """Draw session profits of the main game, the bonus and both: 5% to 95%, and the mean."""
    parts = {"main game": found.main_profit, "bonus": found.bonus_profit, "both": found.profit}
    bars = []
    for name, profit in parts.items():
        low, high = profit.quantiles.quantiles([0.05, 0.95])
        none = name == "bonus" and not found.bonus_wagered
        note = (
            "no bonus bets"
            if none
            else f"mean {number(profit.mean, 2 if abs(profit.mean) < 1e6 else 0)}"
        )
        bars.append(Bar(name, note, low, high, profit.mean))
    return _bars(title, bars, "profit of a session, $: 5% to 95% of sessions, and the mean (line)")


def strategies(title: str, found: Aggregate) -> Html:
    """Draw the exact EV of each strategy under the paytable of the game."""
    table = found.config.paytables.main_table
    wanted = {name: StrategyConfig(type=name) for name in get_args(StrategyName)}
    played = found.config.strategy
    if not found.own_players and played not in wanted.values():
        wanted["as played"] = played
    bars = []
    for name, config in wanted.items():
        ev = float(exact_answer(table, strategy_of(config, table))["ev"]["value"])
        bars.append(Bar(name, number(ev, 5), min(ev, 0.0), max(ev, 0.0)))
    if found.own_players:
        ev, interval = (ratio := found.ratios["main_ev_per_hand"]).value, ratio.interval()
        bars.append(
            Bar("as played", f"{number(ev, 5)}, simulated", interval.low, interval.high, ev)
        )
    return _bars(title, bars, "EV of the main game per hand, in base bets")


def write(svg: Html, path: Path, kind: str, dpi: int) -> Path:
    """Write a chart as `svg`, `html` or `png`; return its path."""
    target = path.with_suffix(f".{kind}")
    if kind == "png":
        picture = png_maker().svg_to_bytes(svg_string=str(svg), zoom=dpi / SVG_DPI)
        data = bytes(picture)
    elif kind == "html":
        page = element("html", Html('<meta charset="utf-8">'), element("body", svg), lang="en")
        data = f"<!doctype html>\n{page}\n".encode()
    else:
        data = f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'.encode()
    with whole_file(target) as place:
        place.write_bytes(data)
    return target


def png_maker() -> Any:
    """The converter from SVG to PNG; an error if it can't draw text."""
    try:
        import resvg_py
    except ImportError as error:
        raise UsageError(
            "output.visualizations.format is png, but the converter from SVG is not installed",
            hint="pip install 'runyard[letitride]', or write format: svg",
        ) from error
    plain, told = (
        resvg_py.svg_to_bytes(svg_string=str(_drawn(title, [], ""))) for title in ("", "Title")
    )
    if bytes(plain) == bytes(told):
        raise UsageError(
            "output.visualizations.format is png, but there is no font for its text",
            hint=f"install one of {FONTS.removesuffix(', sans-serif')}, or write format: svg",
        )
    return resvg_py


@dataclass(frozen=True)
class Bar:
    """A bar from one value to another, with a note below its label and a mark."""

    label: str
    note: str
    low: float
    high: float
    mark: float | None = None


def _bars(title: str, bars: Sequence[Bar], axis: str) -> Html:
    """Draw bars below each other, over a scale that includes zero."""
    values = [v for bar in bars for v in (bar.low, bar.high, bar.mark) if v is not None]
    frame = PlotArea(_across(values, zero=True), _upright((0.0,)))
    parts: list[object] = []
    for tick, label in zip(frame.across.ticks, frame.across.labels, strict=True):
        x, anchor = frame.x(tick), frame.across.anchor(tick, label)
        parts += [_line(x, TOP, x, HEIGHT - BOTTOM, _GRID), _text(x, HEIGHT - 28, label, anchor)]
    height = (HEIGHT - TOP - BOTTOM) / len(bars)
    for at, bar in enumerate(bars):
        middle = TOP + (at + 0.5) * height
        parts += [_text(LEFT - 8, middle - 3, bar.label, "end"),
                  _text(LEFT - 8, middle + 12, bar.note, "end")]  # fmt: skip
        left, right = frame.x(bar.low), frame.x(bar.high)
        parts.append(_box(left, middle - height * 0.3, max(right - left, 1), height * 0.6))
        if bar.mark is not None:
            x = frame.x(bar.mark)
            parts.append(_line(x, middle - height * 0.4, x, middle + height * 0.4, _MARK, 2))
    return _drawn(title, [*parts, _line(frame.x(0), TOP, frame.x(0), HEIGHT - BOTTOM, _INK)], axis)


def _across(values: Iterable[float], *, zero: bool = False, margin: float = 0.02) -> Scale:
    return Scale.over(values, zero=zero, margin=margin, width=WIDTH - LEFT - RIGHT)


def _upright(values: Iterable[float]) -> Scale:
    """A vertical scale, whose labels may have any length."""
    return Scale.over(values, zero=True, width=sys.maxsize)


def _powers(shares: Sequence[float]) -> Scale:
    """A logarithmic scale with powers of ten."""
    lowest = next(10.0**-k for k in range(1, 12) if 10.0**-k < min(shares))
    ticks = [1.0]
    while ticks[-1] > lowest * 1.5:
        ticks.append(ticks[-1] / 10)
    labels = [f"{100 * tick:g}%" for tick in ticks]
    return Scale(lowest, 1.0, tuple(ticks), tuple(labels), log=True)


def _grid(frame: PlotArea, *, percent: bool = False) -> list[Html]:
    found = []
    for tick, label in zip(frame.up.ticks, frame.up.labels, strict=True):
        y = frame.y(tick)
        shown = f"{100 * tick:g}%" if percent else label
        found += [_line(LEFT, y, WIDTH - RIGHT, y, _GRID), _text(LEFT - 8, y + 4, shown, "end")]
    for tick, label in zip(frame.across.ticks, frame.across.labels, strict=True):
        anchor = frame.across.anchor(tick, label)
        found.append(_text(frame.x(tick), HEIGHT - 28, label, anchor))
    return found


def _drawn(title: str, parts: Sequence[object], axis: str) -> Html:
    return element(
        "svg",
        element("title", title),
        element("rect", width=WIDTH, height=HEIGHT, fill="#ffffff"),
        element("text", cut(title, LONGEST_TITLE), x=8, y=26, font_size=16, font_weight=600,
                fill=_INK),
        join(parts),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, axis, "middle"),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH,
        height=HEIGHT, font_family=FONTS, role="img",
    )  # fmt: skip


def _box(x: float, y: float, width: float, height: float) -> Html:
    return element("rect", x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}",
                   height=f"{max(height, 0):.1f}", fill=_BAR)  # fmt: skip


def _line(x1: float, y1: float, x2: float, y2: float, ink: str, width: float = 1) -> Html:
    return element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}",
                   stroke=ink, stroke_width=width)  # fmt: skip


def _text(x: float, y: float, text: object, anchor: str) -> Html:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, font_size=12,
                   fill=_INK)  # fmt: skip
