"""Charts of runs: promotions, reputations, who votes for whom, gate blocks, winners."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from runyard.doors.malice.report.statistics import NONE, Records, winners
from runyard.doors.malice.report.summary import percents
from runyard.doors.malice.society.state import MALLORY, NAMES
from runyard.doors.malice.society.symbols import DEMOTE, PROMOTE
from runyard.format import count
from runyard.reports.html import Html, Row, Scale, bar_chart, chart, element, histogram, join, safe
from runyard.reports.html.blocks import number
from runyard.reports.html.charts import mark, outline, sign
from runyard.stats import Quantiles

MOST_MARKS = 150
"""Promotions of one user up to which each is marked; more are drawn as bars."""

BINS = 30
SPREAD = (0.05, 0.95)
"""The quantiles of the runs between which a band is drawn."""

LONGEST_NAME = 24
"""The longest name in the chart of votes; longer ones are cut in the middle."""

SHORT_NAME = 8
"""With names up to this length the chart fits a phone; with others it scrolls."""

_RADIUS = 165  # of the circle of users
_LINE = 20  # vertical distance of two names
_LETTER = 10  # width of a letter of a name
_ROW = 44


Point = tuple[float, float]


def users_of(records: Records) -> list[str]:
    """The users of the runs, the published ones first and in their order."""
    found = {name for record in records for name in record["user_final_states"]}
    return [name for name in NAMES if name in found] + sorted(found - set(NAMES))


def votes_of(records: Records) -> Counter[tuple[str, str]]:
    """How many votes of each voter for each target counted."""
    told = Counter(vote for record in records for vote in record["votes"])
    found: Counter[tuple[str, str]] = Counter()
    for vote, total in told.items():
        voter, _, target = vote.rpartition(" ")
        found[voter, target] = total
    return found


def promotions(records: Records) -> Html:
    """Chart of who became BINDER at which ticket."""
    longest = max(record["tickets_processed"] for record in records)
    scale = Scale.over((0, longest), zero=True, margin=0.0)
    rows = []
    for name in users_of(records):
        at = [ticket for r in records for ticket, who in r["rises"] if who == name]
        if len(at) <= MOST_MARKS:
            marks = join(mark("diamond", scale.at(t), 15, f"ticket {t}") for t in at)
        else:
            bins = Counter(min(BINS - 1, t * BINS // (longest + 1)) for t in at)
            most = max(bins.values())
            marks = outline(scale, 0, longest, [bins[b] / most for b in range(BINS)], 26, 2)
        told = count(len(at), "promotion")
        rows.append(Row(_label(name), marks, told, spoken=f"{name}: {told}"))
    key = join((sign("diamond"), " a promotion to BINDER"))
    return chart("Promotions", rows, scale, axis="ticket of the run", key=key)


def reputations(records: Records, demote_at: float) -> Html:
    """Chart of each user's reputation along a run: its mean, and the spread of the runs."""
    longest = max(record["tickets_processed"] for record in records)
    same = [r for r in records if r["tickets_processed"] == longest]
    places: list[int] = [0, *same[0]["reputations_at"]]
    paths = {name: _paths([r["reputations"][name] for r in same]) for name in users_of(same)}
    scale = Scale.over((0, longest), zero=True, margin=0.0)
    values = [value for path in paths.values() for line in path for value in line]
    low, high = min(values), max(values)
    levels = [0.0, demote_at] if low <= demote_at <= high else [0.0]
    rows = [
        Row(
            _label(name),
            _drawn(
                scale, places, path, (low, high), levels, "cross" if name == MALLORY else "whisker"
            ),
            f"ends at {number(path.mean[-1], 2)}",
            height=_ROW,
            spoken=f"{name}: mean reputation from 0 to {number(path.mean[-1], 2)}",
        )
        for name, path in paths.items()
    ]
    within = f"{100 * (SPREAD[1] - SPREAD[0]):.0f}%"
    key = (
        f"line: the mean over {count(len(same), 'run')}; band: {within} of them; "
        f"each row from {number(low, 1)} to {number(high, 1)}; solid level: 0"
    )
    if len(levels) > 1:
        key += f"; dashed level: {number(demote_at)}, where a status is lost"
    return chart("Reputation", rows, scale, axis="ticket of the run", key=key)


class _Path(NamedTuple):
    """One user's reputation at each place, over runs."""

    low: list[float]
    mean: list[float]
    high: list[float]


def _paths(runs: Sequence[Sequence[float]]) -> _Path:
    path = _Path([0.0], [0.0], [0.0])
    for values in zip(*runs, strict=True):
        low, high = Quantiles(values).quantiles(SPREAD)
        path.low.append(low)
        path.mean.append(sum(values) / len(values))
        path.high.append(high)
    return path


def _drawn(
    scale: Scale,
    places: Sequence[int],
    path: _Path,
    reach: tuple[float, float],
    levels: Sequence[float],
    kind: str,
) -> Html:
    low, high = reach
    span = (high - low) or 1.0

    def down(value: float) -> float:
        return 3 + 94 * (high - value) / span

    def points(values: Sequence[float]) -> list[str]:
        across = [1000 * scale.share(at) for at in places]
        return [f"{x:.0f},{down(v):.1f}" for x, v in zip(across, values, strict=True)]

    band = [*points(path.low), *reversed(points(path.high))]
    shapes = [element("polygon", points=" ".join(band), class_="bars", fill_opacity="0.45")]
    shapes += [
        element(
            "line", x1=0, x2=1000, y1=f"{down(level):.1f}", y2=f"{down(level):.1f}",
            class_="zero" if at else "grid", vector_effect="non-scaling-stroke",
        )
        for at, level in enumerate(levels)
    ]  # fmt: skip
    shapes.append(
        element(
            "polyline", points=" ".join(points(path.mean)), class_=kind, fill="none",
            vector_effect="non-scaling-stroke",
        )
    )  # fmt: skip
    return element(
        "svg", *shapes, x=0, y=0, width="100%", height=_ROW, viewBox="0 0 1000 100",
        preserveAspectRatio="none",
    )  # fmt: skip


def network(records: Records) -> Html:
    """Chart of who votes for and against whom; stronger lines mean more votes."""
    names = users_of(records)
    votes = votes_of(records)
    radius = max(_RADIUS, _LINE * (len(names) + 4) / 4)  # half of the names are on each side
    places = {name: _place(at, len(names), radius) for at, name in enumerate(names)}
    most = max(votes.values(), default=1)
    lines = [
        _edge(places[voter], places[target.partition("_")[2]], target, total / most)
        for (voter, target), total in sorted(votes.items(), key=lambda each: each[1])
        if f"{PROMOTE}_{voter}" != target and target.partition("_")[2] in places
    ]
    letters = min(LONGEST_NAME, max(map(len, names)))
    across, down = round(radius + 2 * _LINE + _LETTER * letters), round(radius + 3 * _LINE)
    drawing = element(
        "svg", *lines, *_names(places, radius), role="img",
        viewBox=f"{-across} {-down} {2 * across} {2 * down}",
        aria_label="who votes for and against whom; the table below has the numbers",
    )  # fmt: skip
    held = "scroll fit" if letters <= SHORT_NAME else "scroll"
    key = "each line ends in a dot at the target of the vote; votes against are dashed"
    return element(
        "figure", element("figcaption", "Votes that counted"),
        element("div", drawing, class_=held, tabindex=0),
        element("p", key, class_="key"), class_="chart",
    )  # fmt: skip


def _names(places: dict[str, Point], radius: float) -> list[Html]:
    """Names around the circle, each at the height of its user and a line from the next."""
    outer = radius + _LINE
    found = []
    for anchor, side in (("start", 1), ("end", -1)):
        there = sorted((y, name) for name, (x, y) in places.items() if x * side > 1)
        heights = _apart([y for y, _ in there], outer - _LINE)
        for (_, name), y in zip(there, heights, strict=True):
            x = side * math.sqrt(max(0.0, outer**2 - y**2))
            found.append(_name(name, x, y, anchor))
    ends = [(name, y) for name, (x, y) in places.items() if abs(x) <= 1]
    return [*found, *(_name(name, 0.0, math.copysign(outer, y), "middle") for name, y in ends)]


def _apart(heights: Sequence[float], most: float) -> list[float]:
    """Heights from the top down, moved to be a line apart and within ±`most`."""
    found: list[float] = []
    for height in heights:
        found.append(max(height, found[-1] + _LINE if found else -most))
    for at in reversed(range(len(found))):
        found[at] = min(found[at], found[at + 1] - _LINE if at + 1 < len(found) else most)
    return found


def _name(name: str, x: float, y: float, anchor: str) -> Html:
    return element(
        "text", element("title", name), _shortened(name), x=round(x), y=round(y) + 5,
        text_anchor=anchor, font_size=16, fill="currentColor",
    )  # fmt: skip


def _shortened(name: str) -> str:
    """A name cut in the middle, since long ones often start the same."""
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[: half - 1]}…{name[-half:]}"


def vote_rows(records: Records) -> list[list[Any]]:
    """Counted votes per run, for and against, by voter and target."""
    names = users_of(records)
    votes = votes_of(records)

    def cell(voter: str, target: str) -> str:
        for_, against = (
            votes[voter, f"{kind}_{target}"] / len(records) for kind in (PROMOTE, DEMOTE)
        )
        told = [f"+{for_:.2f}"] if for_ else []
        return " ".join([*told, *([f"−{against:.2f}"] if against else [])])

    return [[voter, *(cell(voter, target) for target in names)] for voter in names]


def blocks(records: Records) -> Html:
    """Histogram of gate blocks per run."""
    edges, counts = whole_bins([record["total_gate_blocks"] for record in records])
    return histogram("Gate blocks per run", edges, counts, axis="blocks")


def whole_bins(values: Sequence[int]) -> tuple[list[float], list[int]]:
    """Bins for counts, each of one or more whole numbers, at most `BINS` in all."""
    low = min(values)
    high = max(max(values), low + 2)  # so that the scale has room for whole ticks
    wide = math.ceil((high - low + 1) / BINS)
    bins = math.ceil((high - low + 1) / wide)
    found = Counter((value - low) // wide for value in values)
    return [low - 0.5 + wide * at for at in range(bins + 1)], [found[at] for at in range(bins)]


def won(records: Records) -> Html:
    """Chart of who ends as BINDER, and how often no one does."""
    bars = [
        (
            "no one" if name == NONE else name,
            float(total),
            f"{total:,} of {len(records):,} ({percents(total / len(records))[0]})",
        )
        for name, total in winners(records).items()
    ]
    return bar_chart("Winners", bars, axis="runs")


def _label(name: str) -> Html:
    """A user's name; mallory's is emphasised."""
    return element("strong", name) if name == MALLORY else safe(name)


def _place(at: int, of: int, radius: float) -> Point:
    """A place on the circle around the origin, clockwise from the top."""
    angle = 2 * math.pi * at / of - math.pi / 2
    return radius * math.cos(angle), radius * math.sin(angle)


def _edge(start: Point, end: Point, target: str, strength: float) -> Html:
    """A line bent to the right, so that both directions can be seen; its end is marked."""
    (x1, y1), (x2, y2) = start, end
    dx, dy = x2 - x1, y2 - y1
    mx, my = (x1 + x2) / 2 - dy * 0.12, (y1 + y2) / 2 + dx * 0.12
    tip = (x2 - (x2 - mx) * 0.06, y2 - (y2 - my) * 0.06)
    against = target.startswith(DEMOTE)
    kind = "cross" if against else "whisker"
    opacity = f"{0.08 + 0.82 * strength:.2f}"
    line = element(
        "path", d=f"M{x1:.0f} {y1:.0f}Q{mx:.0f} {my:.0f} {tip[0]:.0f} {tip[1]:.0f}",
        class_=kind, fill="none", stroke_opacity=opacity,
        stroke_dasharray="5 4" if against else None,
    )  # fmt: skip
    dot = element(
        "circle", cx=round(tip[0]), cy=round(tip[1]), r=3, class_=kind, fill="none",
        stroke_opacity=opacity,
    )  # fmt: skip
    return join((line, dot))
