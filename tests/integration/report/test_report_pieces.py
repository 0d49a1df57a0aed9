"""The pieces of a report: escaping, numbers for people, scales, the timeline, the history."""

from __future__ import annotations

import html
import math
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_kit import HOSTILE, Page

from runyard.events import AuditLog
from runyard.format import count, duration, size
from runyard.reports.html import (
    Estimate,
    Html,
    Row,
    Scale,
    bar_chart,
    chart,
    command,
    details,
    element,
    facts,
    histogram,
    interval_plot,
    paragraph,
    safe,
    table,
    tiles,
)
from runyard.reports.html.blocks import number
from runyard.reports.html.charts import mark, span
from runyard.reports.html.history import MOST_ALERTS, RunHistory, read_history
from runyard.reports.html.timeline import BINS, busy_time

SCALE = Scale.over([0.0, 10.0])
FINITE = st.floats(-1e9, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    "made",
    [
        safe(HOSTILE),
        element("p", HOSTILE, title=HOSTILE),
        paragraph(HOSTILE),
        command(HOSTILE),
        facts({HOSTILE: HOSTILE}),
        tiles([(HOSTILE, HOSTILE, "bad")]),
        table([HOSTILE], [[HOSTILE]], caption=HOSTILE),
        details(HOSTILE, HOSTILE),
        bar_chart(HOSTILE, [(HOSTILE, 1.0, HOSTILE)], axis=HOSTILE),
        histogram(HOSTILE, [0, 1, 2], [3, 4], axis=HOSTILE),
        interval_plot(HOSTILE, [Estimate(HOSTILE, 0, 1, 2, HOSTILE)], axis=HOSTILE, key=HOSTILE),
        chart(HOSTILE, [Row(HOSTILE, Html(""), HOSTILE, spoken=HOSTILE)], SCALE, key=HOSTILE),
        span(SCALE, 1, 2, 0, 9, title=HOSTILE),
        mark("cross", "5%", 3, HOSTILE),
    ],
)
def test_no_piece_lets_markup_through(made: Html) -> None:
    assert isinstance(made, Html)
    page = Page(f"<div>{made}</div>")
    assert not page.named("img")
    assert not page.named("script")
    assert html.escape("<img") in made


@given(st.text())
def test_escaped_text_comes_back_as_it_was_but_for_what_nobody_can_see(text: str) -> None:
    back = html.unescape(safe(text))
    assert len(back) == len(text)
    assert all(a == b or b == "�" for a, b in zip(text, back, strict=True))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", back)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 µs"), (2.5e-5, "25 µs"), (0.0123, "12 ms"), (0.123, "123 ms"), (1.0, "1.0 s"),
        (9.99e-4, "999 µs"), (9.999e-4, "1.0 ms"), (59.97, "1 min 00 s"), (125.0, "2 min 05 s"),
        (7200.0, "2 h 00 min"), (3.6e6, "41 d 16 h"),
    ],
)  # fmt: skip
def test_time_spans_are_told_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_numbers_are_told_as_people_read_them() -> None:
    assert [number(v) for v in (0.0, 3.0, 1234567.0, -0.25, 1e-9, math.nan, math.inf)] == [
        "0", "3", "1,234,567", "−0.2500", "1e−09", "–", "∞",
    ]  # fmt: skip
    assert number(-0.0001, 2) == "0.00"
    assert number(None) == "–"
    assert (size(12), size(999_960), size(25_300_000_000)) == ("12 B", "1.0 MB", "25.3 GB")
    assert count(1, "retry", "retries") == "1 retry"
    assert count(2000, "task") == "2,000 tasks"


@given(st.lists(FINITE, min_size=1, max_size=5), st.booleans())
def test_a_scale_has_few_round_ticks_and_shows_every_value(values: list[float], zero: bool) -> None:
    scale = Scale.over(values, zero=zero)
    assert 1 <= len(scale.ticks) <= 6
    assert len(set(scale.labels)) == len(scale.labels)
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)
    assert all(scale.low <= value <= scale.high for value in values)
    assert all(0 <= scale.share(value) <= 1 for value in values)
    if len(scale.ticks) > 1:
        step = (scale.ticks[-1] - scale.ticks[0]) / (len(scale.ticks) - 1)
        head = float(f"{step:.3e}".partition("e")[0])
        assert head in (1.0, 2.0, 2.5, 5.0)


@given(st.floats(1e-7, 1e5), st.floats(1.0, 1e6))
def test_a_scale_of_times_shows_both_ends(low: float, times: float) -> None:
    scale = Scale.of_seconds(low, low * times)
    assert scale.low <= low * 1.0000001
    assert scale.high >= low * times * 0.9999999
    assert 2 <= len(scale.ticks) <= 7


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)).map(sorted), min_size=1, max_size=20))
def test_busy_time_is_what_each_part_of_a_run_shares_with_the_spans(
    spans: list[list[float]],
) -> None:
    width = 10 / BINS
    start, end = (np.array(side, float) for side in zip(*spans, strict=True))
    found = busy_time(start, end, width)
    low = np.arange(BINS) * width
    overlap = np.minimum(end[:, None], low + width) - np.maximum(start[:, None], low)
    assert np.allclose(found, np.clip(overlap, 0, None).sum(axis=0), atol=1e-9)


# The history


def _started(engine: int, at: float) -> dict[str, object]:
    return {"event": "BatchStarted", "engine": engine, "at": at, "total": 4, "seed": 1,
            "backend": "serial", "workers": 1}  # fmt: skip


def _ended(engine: int, at: float, reason: str | None = None) -> dict[str, object]:
    told = {"engine": engine, "at": at, "completed": 2, "failed": 1, "cancelled": 0}
    return (
        {"event": "BatchStopped", "reason": reason} | told
        if reason
        else ({"event": "BatchFinished"} | told)
    )


def test_each_end_belongs_to_the_run_of_its_engine(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "events.jsonl")
    # The first run dies, the second and the third overlap, the second outlives the third.
    log.append([_started(1, 10.0), _started(2, 100.0), _started(3, 110.0),
                _ended(3, 120.0, "stopped"), _ended(2, 150.0)])  # fmt: skip
    history = read_history(tmp_path / "events.jsonl")
    assert [(run.started, run.ended, run.reason) for run in history.runs] == [
        (10.0, None, ""), (100.0, 150.0, "finished"), (110.0, 120.0, "stopped"),
    ]  # fmt: skip
    assert history.runs[1].done == 3


def test_of_two_engines_each_has_its_own_provenance_retries_and_lost_workers() -> None:
    history = RunHistory()
    for event in (
        _started(4, 10.0),
        _started(5, 10.1),
        {"event": "RunDescribed", "engine": 4, "at": 10.2, "command": "of engine 4"},
        {"event": "RunDescribed", "engine": 5, "at": 10.3, "command": "of engine 5"},
        {"event": "TaskRetried", "engine": 4, "at": 11.0, "error": "OSError"},
        {"event": "WorkerLost", "engine": 5, "at": 12.0, "worker": 0, "reason": "killed"},
    ):
        history.take(event)
    assert [run.described["command"] for run in history.runs] == ["of engine 4", "of engine 5"]
    assert history.retried == [(4, 11.0)]
    assert history.lost == [(5, 12.0, 0, "killed")]


def test_what_is_said_again_is_counted_and_the_list_is_bounded() -> None:
    history = RunHistory()
    for task in [*range(10 * MOST_ALERTS), 3, 3]:
        text = "the same" if task % 2 else f"number {task}"
        history.take({"event": "TaskEmitted", "at": 1.0, "task": task, "kind": "log",
                    "data": {"level": "warning", "message": text}})  # fmt: skip
    assert len(history.alerts) == MOST_ALERTS
    same = history.alerts["log", "warning", "the same"]
    assert same.count == 5 * MOST_ALERTS + 2
    assert same.tasks == [1, 3, 5]

    lost = RunHistory()
    for task in (2, 2, 7):
        lost.take({"event": "WorkerLost", "engine": 1, "at": 1.0, "worker": 0, "task": task,
                   "reason": "killed"})  # fmt: skip
    (alert,) = lost.alerts.values()
    assert (alert.count, alert.tasks) == (3, [2, 7])
    assert history.more_alerts == 4 * MOST_ALERTS + 1


def test_what_a_task_says_quietly_is_no_alert() -> None:
    history = RunHistory()
    for data in ({"level": "info", "message": "x"}, {"loss": 1.0}, {}):
        history.take({"event": "TaskEmitted", "at": 1.0, "task": 1, "kind": "log", "data": data})
    assert not history.alerts


# Colours


def _palettes() -> dict[str, dict[str, str]]:
    css = files("runyard.reports.html").joinpath("report.css").read_text(encoding="utf-8")
    roots = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    assert len(roots) == 3
    return {
        name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", root))
        for name, root in zip(("light", "dark", "print"), roots, strict=True)
    }


@pytest.mark.parametrize("palette", ["light", "dark", "print"])
def test_text_and_marks_stand_out_from_what_is_behind_them(palette: str) -> None:
    colours = _palettes()[palette]
    for name, behind, least in (
        ("ink", "page", 7.0), ("soft", "page", 4.5), ("deep", "page", 4.5), ("bad", "page", 4.5),
        ("ink", "panel", 7.0), ("ink", "bad-panel", 7.0), ("fill", "page", 2.0),
        ("deep", "fill", 2.0),
    ):  # fmt: skip
        assert _contrast(colours[name], colours[behind]) >= least, f"{name} on {behind}"


def _contrast(one: str, other: str) -> float:
    """The WCAG ratio of two colours, which is about light alone: what is left in grey."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
