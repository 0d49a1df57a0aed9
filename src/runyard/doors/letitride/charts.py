"""Charts as files of their own: SVG drawn here, a page of HTML, or PNG made of it.

A chart is a few shapes over two axes; nothing is loaded, and it looks the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runyard.doors.letitride.aggregate import Aggregate
from runyard.doors.letitride.config_output import ChartConfig
from runyard.doors.letitride.words import hand_rows, profit_bins
from runyard.errors import UsageError
from runyard.reports.html.blocks import Html, element, join, number
from runyard.reports.html.charts import Scale

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 130, 24, 48, 48
SVG_DPI = 96
SAMPLE = 20
"""Sessions whose bankroll is drawn, unless a chart says otherwise."""

TITLES = {
    "session_outcomes_histogram": "Session profit",
    "bankroll_trajectory": "Bankroll, hand by hand",
    "hand_frequency": "How often each hand came, and exactly (line)",
}
Paths = Sequence[Sequence[float]]
_INK, _BAR, _MARK, _GRID = "#1f2933", "#3b6ea5", "#c2410c", "#d5dbe1"


@dataclass(frozen=True)
class Frame:
    """The two axes of a chart, and from values to places."""

    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        """From the left."""
        return round(LEFT + self.across.share(value) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """From the top."""
        return round(HEIGHT - BOTTOM - self.up.share(value) * (HEIGHT - TOP - BOTTOM), 1)


def chart(config: ChartConfig, found: Aggregate, paths: Callable[[int], Paths]) -> Html:
    """One chart as SVG; `paths` gives the bankrolls of so many sessions."""
    title = config.title or TITLES[config.type]
    if config.type == "session_outcomes_histogram":
        return profits(title, found)
    if config.type == "hand_frequency":
        return hands(title, found)
    return trajectories(title, paths(config.sample_sessions or SAMPLE))


def profits(title: str, found: Aggregate) -> Html:
    """How session profits spread."""
    edges, counts = profit_bins(found, 40)
    shares = [count / found.rows for count in counts]
    frame = Frame(Scale.over(edges, margin=0.0), Scale.over(shares, zero=True))
    base = frame.y(0.0)
    bars = [
        _box(frame.x(low) + 0.5, frame.y(share), max(frame.x(high) - frame.x(low) - 1, 0.5),
             base - frame.y(share))
        for low, high, share in zip(edges, edges[1:], shares, strict=False)
    ]  # fmt: skip
    zero = _line(frame.x(0.0), TOP, frame.x(0.0), base, _MARK) if edges[0] < 0 < edges[-1] else ""
    return _drawn(title, [*_grid(frame, percent=True), *bars, zero], "profit of a session, $")


def trajectories(title: str, paths: Paths) -> Html:
    """Bankrolls of some sessions, hand by hand."""
    longest = max(len(path) for path in paths)
    frame = Frame(
        Scale.over((0, max(1, longest - 1)), margin=0.0),
        Scale.over((value for path in paths for value in path), zero=True),
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
    """Each hand's share as a bar, on a scale of powers of ten, with a mark at the exact one."""
    rows = hand_rows(found)
    scale = _powers([exact for *_, exact in rows])
    height = (HEIGHT - TOP - BOTTOM) / len(rows)
    parts: list[object] = []
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        x = LEFT + scale.share(tick) * (WIDTH - LEFT - RIGHT)
        parts += [_line(x, TOP, x, HEIGHT - BOTTOM, _GRID), _text(x, HEIGHT - 30, label, "middle")]
    for at, (name, count, share, exact) in enumerate(rows):
        y = TOP + at * height
        parts.append(_text(LEFT - 8, y + height * 0.7, name, "end"))
        if count:
            width = scale.share(share) * (WIDTH - LEFT - RIGHT)
            parts.append(_box(LEFT, y + 4, max(width, 1), height - 8))
        x = LEFT + scale.share(exact) * (WIDTH - LEFT - RIGHT)
        parts.append(_line(x, y + 2, x, y + height - 2, _MARK, 2))
    return _drawn(title, parts, "share of hands")


def write(svg: Html, path: Path, kind: str, dpi: int) -> Path:
    """Write a chart as `svg`, `html` or `png`; where it is."""
    target = path.with_suffix(f".{kind}")
    if kind == "png":
        picture = png_maker().svg_to_bytes(svg_string=str(svg), zoom=dpi / SVG_DPI)
        target.write_bytes(bytes(picture))
    elif kind == "html":
        page = element("html", Html('<meta charset="utf-8">'), element("body", svg), lang="en")
        target.write_text(f"<!doctype html>\n{page}\n", encoding="utf-8")
    else:
        target.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n', encoding="utf-8")
    return target


def png_maker() -> Any:
    """What makes PNG of SVG."""
    try:
        import resvg_py
    except ImportError as error:
        raise UsageError(
            "output.visualizations.format is png, and what makes PNG of SVG is not installed",
            hint="pip install 'runyard[letitride]', or write format: svg",
        ) from error
    return resvg_py


def _powers(shares: Sequence[float]) -> Scale:
    """A scale over powers of ten."""
    lowest = next(10.0**-k for k in range(1, 12) if 10.0**-k < min(shares))
    ticks = [1.0]
    while ticks[-1] > lowest * 1.5:
        ticks.append(ticks[-1] / 10)
    labels = [f"{100 * tick:g}%" for tick in ticks]
    return Scale(lowest, 1.0, tuple(ticks), tuple(labels), log=True)


def _grid(frame: Frame, *, percent: bool = False) -> list[Html]:
    found = []
    for tick, label in zip(frame.up.ticks, frame.up.labels, strict=True):
        y = frame.y(tick)
        shown = f"{100 * tick:g}%" if percent else label
        found += [_line(LEFT, y, WIDTH - RIGHT, y, _GRID), _text(LEFT - 8, y + 4, shown, "end")]
    for tick in frame.across.ticks:
        x = frame.x(tick)
        found.append(_text(x, HEIGHT - 30, number(tick), "middle"))
    return found


def _drawn(title: str, parts: Sequence[object], axis: str) -> Html:
    return element(
        "svg",
        element("title", title),
        element("rect", width=WIDTH, height=HEIGHT, fill="#ffffff"),
        element("text", title, x=LEFT, y=26, font_size=16, font_weight=600, fill=_INK),
        join(parts),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, axis, "middle"),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH,
        height=HEIGHT, font_family="sans-serif", role="img",
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
