"""Trajectories as a graph: which nodes ran after which, over the cells of a variant.

What ran side by side is told from the times: a node belongs to the step that is running when it
starts. Nodes of a subgraph follow one another inside the visit of their parent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from runyard.format import cut
from runyard.reports.html import Html, element, join

START, END = "start", "end"
INNER = ":"
MOST_NODES = 60
_WIDE, _HIGH, _GAP_X, _GAP_Y, _PAD = 132, 34, 64, 20, 10
_LONGEST = 18

NodeTimes = tuple[str, float, float | None]


@dataclass
class VisitGraph:
    """The visits of several cells."""

    cells: int = 0
    visits: Counter[str] = field(default_factory=Counter)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    columns: dict[str, int] = field(default_factory=dict)  # by node: the step of its first visit


def paths_of(
    cells: Iterable[Sequence[NodeTimes]], stopped: Iterable[Sequence[NodeTimes]] = ()
) -> VisitGraph:
    """The paths of cells, each by its visits; those of `stopped` did not reach the end."""
    found = VisitGraph()
    ends: tuple[set[str], ...] = ({END},)
    for visits, last in [*((each, ends) for each in cells), *((each, ()) for each in stopped)]:
        found.cells += 1
        own = [visit for visit in visits if INNER not in visit[0]]
        steps = [{START}, *steps_of(own), *last]
        found.visits.update(name for name, _, _ in visits)
        first: dict[str, int] = {}
        for at, step in enumerate(steps):
            for name in step:
                first.setdefault(name, at)
        for name, at in first.items():  # the latest, so that a shortcut leads forwards
            found.columns[name] = max(at, found.columns.get(name, 0))
        for before, after in pairwise(steps):
            found.edges.update((a, b) for a in before for b in after)
        _add_inner(found, visits)
    for name in found.visits:
        if INNER in name:
            found.columns[name] = found.columns.get(name.split(INNER)[0], 1)
    if END in found.columns:
        found.columns[END] = 1 + max(at for n, at in found.columns.items() if n != END)
    return found


def steps_of(visits: Sequence[NodeTimes]) -> list[set[str]]:
    """The names that ran side by side, step by step."""
    steps: list[set[str]] = []
    end = float("-inf")
    for name, start, seconds in sorted(visits, key=lambda visit: visit[1]):
        over = start + (seconds or 0.0)
        if start >= end or not steps:
            steps.append(set())
            end = over
        steps[-1].add(name)
        end = max(end, over)
    return steps


def _add_inner(found: VisitGraph, visits: Sequence[NodeTimes]) -> None:
    last: dict[str, str] = {}
    for name, _, _ in visits:
        parent, _, inner = name.rpartition(INNER)
        if inner == name or not parent:
            last = {key: value for key, value in last.items() if not key.startswith(name)}
            continue
        before = last.get(parent, parent)
        found.edges[before, name] += 1
        last[parent] = name


def drawing(paths: VisitGraph, title: str) -> Html:
    """The graph: nodes by step from left to right, edges as wide as they are frequent."""
    rows: dict[int, list[str]] = defaultdict(list)
    order = {name: at for at, name in enumerate([START, *paths.visits, END])}
    for name in sorted(paths.columns, key=order.__getitem__):
        rows[paths.columns[name]].append(name)
    tallest = max(map(len, rows.values()))
    height = 2 * _PAD + tallest * (_HIGH + _GAP_Y) - _GAP_Y + 26
    places = {}
    for column, names in rows.items():
        top = 26 + _PAD + (tallest - len(names)) * (_HIGH + _GAP_Y) / 2
        for at, name in enumerate(names):
            places[name] = (_PAD + column * (_WIDE + _GAP_X), top + at * (_HIGH + _GAP_Y))
    width = 2 * _PAD + (max(rows) + 1) * (_WIDE + _GAP_X) - _GAP_X
    most = max(paths.edges.values(), default=1)
    edges = [
        _edge(places[a], places[b], times, most, f"{a} → {b}: {times:,}")
        for (a, b), times in sorted(paths.edges.items())
    ]
    nodes = [_node(name, places[name], paths) for name in places]
    svg = element(
        "svg", *edges, *nodes, viewBox=f"0 0 {width:g} {height:g}", width=f"{width:g}",
        height=f"{height:g}", style=f"min-width:{min(width, 900):g}px;max-width:{width:g}px",
        role="img", aria_label=f"{title}: {_spoken(paths)}",
    )  # fmt: skip
    return element(
        "figure",
        element("figcaption", title),
        element("div", svg, class_="scroll", tabindex=0),
        class_="chart",
    )


def _node(name: str, place: tuple[float, float], paths: VisitGraph) -> Html:
    x, y = place
    if name in (START, END):
        middle = f"{x + (_WIDE - 18 if name == START else 18):g}"
        return join([
            element("circle", cx=middle, cy=f"{y + _HIGH / 2:g}", r=6, class_="diamond"),
            element("text", name, x=middle, y=f"{y + _HIGH / 2 + 22:g}", text_anchor="middle",
                    font_size=11, fill="var(--soft)"),
        ])  # fmt: skip
    inner = INNER in name
    told = f"{name}: visited {paths.visits[name]:,} times in {paths.cells:,} cells"
    return element(
        "g", element("title", told),
        element("rect", x=f"{x:g}", y=f"{y:g}", width=_WIDE, height=_HIGH, rx=6, class_="panel",
                fill="var(--panel)", stroke="var(--deep)",
                stroke_dasharray="4 3" if inner else None),
        element("text", cut(name, _LONGEST), x=f"{x + _WIDE / 2:g}", y=f"{y + 15:g}",
                text_anchor="middle", font_size=12, fill="var(--ink)"),
        element("text", f"{paths.visits[name] / paths.cells:.3g} per cell",
                x=f"{x + _WIDE / 2:g}", y=f"{y + 28:g}", text_anchor="middle", font_size=10,
                fill="var(--soft)"),
    )  # fmt: skip


def _edge(
    start: tuple[float, float], end: tuple[float, float], times: int, most: int, told: str
) -> Html:
    (x1, y1), (x2, y2) = start, end
    y1, y2 = y1 + _HIGH / 2, y2 + _HIGH / 2
    if x2 > x1:
        x1, bend = x1 + _WIDE, (x2 - x1 - _WIDE) / 2
        path = f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2 - 7:g} {y2:g}"
        tip = f"M{x2 - 8:g} {y2 - 4:g}L{x2:g} {y2:g}L{x2 - 8:g} {y2 + 4:g}Z"
    elif x1 == x2 and y1 != y2:  # from a subgraph's visit to its nodes
        x, down = x1 + _WIDE / 2, 1 if y2 > y1 else -1
        y1, y2 = y1 + down * _HIGH / 2, y2 - down * _HIGH / 2
        path = f"M{x:g} {y1:g}L{x:g} {y2 - down * 7:g}"
        tip = f"M{x - 4:g} {y2 - down * 8:g}L{x:g} {y2:g}L{x + 4:g} {y2 - down * 8:g}Z"
    else:  # back to an earlier step, over the top
        x1, x2, top = x1 + _WIDE / 2, x2 + _WIDE / 2, min(y1, y2) - _HIGH / 2
        x1, x2 = (x1 + 16, x2 - 16) if x1 == x2 else (x1, x2)
        path = f"M{x1:g} {y1 - _HIGH / 2:g}C{x1:g} {top - 30:g} {x2:g} {top - 30:g} {x2:g} {y2 - _HIGH / 2 - 7:g}"  # noqa: E501
        y2 -= _HIGH / 2
        tip = f"M{x2 - 4:g} {y2 - 8:g}L{x2:g} {y2:g}L{x2 + 4:g} {y2 - 8:g}Z"
    strong = times / most
    return element(
        "g", element("title", told),
        element("path", d=path, fill="none", stroke="var(--deep)",
                stroke_width=f"{1 + 3 * strong:.1f}", stroke_opacity=f"{0.35 + 0.65 * strong:.2f}"),
        element("path", d=tip, fill="var(--deep)"),
    )  # fmt: skip


def _spoken(paths: VisitGraph) -> str:
    return ", ".join(f"{a} to {b} {times:,} times" for (a, b), times in sorted(paths.edges.items()))


def sequence(trajectory: Sequence[str]) -> Html:
    """The nodes of one cell in order."""
    shown: list[Any] = []
    for at, name in enumerate(trajectory[:MOST_NODES]):
        shown += [" → " if at else "", element("code", name)]
    if len(trajectory) > MOST_NODES:
        shown.append(f" → … and {len(trajectory) - MOST_NODES:,} more")
    return join(shown) if shown else Html("–")
