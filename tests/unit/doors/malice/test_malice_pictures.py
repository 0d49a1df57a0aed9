"""Pictures, figures and progress of runs, as people see them."""

from __future__ import annotations

import io
import re
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from click import unstyle

from runyard.cli.session import painted
from runyard.doors.malice import Config, MaliceExperiment
from runyard.doors.malice.batch.progress import KEPT, by_tickets
from runyard.doors.malice.commands.calibrate import lines
from runyard.doors.malice.report.pictures import BINS, blocks, network, reputations, whole_bins
from runyard.doors.malice.report.statistics import FIGURES, rate
from runyard.doors.malice.report.summary import percents, share
from runyard.doors.malice.society.rules import Rules
from runyard.events import BatchStarted, Event, Notice, TaskEmitted
from runyard.reports.progress import ALERT_KIND, started_line


def test_each_number_of_blocks_has_a_bar_of_its_own() -> None:
    edges, counts = whole_bins([3, 8, 9, 8, 9, 9])
    assert edges == [2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]
    assert counts == [1, 0, 0, 0, 0, 2, 3]


def test_many_numbers_share_bars_of_equal_whole_width() -> None:
    values = [0, *range(40, 100), 1000]
    edges, counts = whole_bins(values)
    widths = {b - a for a, b in pairwise(edges)}
    assert len(widths) == 1
    assert widths.pop().is_integer()
    assert len(counts) <= BINS
    assert sum(counts) == len(values)
    assert edges[-1] > 1000


def test_runs_that_are_all_alike_have_whole_ticks() -> None:
    page = blocks([{"total_gate_blocks": 0}] * 4)
    assert re.findall(r"<text[^>]*>([^<]*)", page) == ["0", "1", "2"]


def test_reputations_mark_mallory_and_where_a_status_is_lost() -> None:
    records = [MaliceExperiment(Config(seed=seed)).run() for seed in range(3)]
    page = reputations(records, Rules().demote_at)
    assert page.count('class="cross"') == 1
    assert "<strong>mallory</strong>" in page
    assert "dashed level: −3" in page
    assert page.count('class="zero"') == page.count("<polygon") == 7
    assert "dashed" not in reputations(records, -1000)


@pytest.mark.parametrize("users", [1, 2, 7, 15, 60])
def test_names_in_the_picture_of_votes_stand_apart_and_inside_of_it(users: int) -> None:
    names = [f"a-user-with-a-very-long-name-{at}" for at in range(users)]
    page = network([{"user_final_states": dict.fromkeys(names), "votes": []}])
    left, top, width, height = map(float, re.search(r'viewBox="([^"]*)"', page)[1].split())
    found = re.findall(r'<text x="(\S+)" y="(\S+)" text-anchor="(\w+)".*?</title>([^<]*)', page)
    assert sorted(name[-8:] for *_, name in found) == sorted(name[-8:] for name in names)
    boxes = []
    for x, y, anchor, name in found:
        across = 10.0 * len(name)
        begin = float(x) - across * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        boxes.append((begin, begin + across, float(y)))
        assert left <= begin
        assert begin + across <= left + width
        assert top + 16 <= float(y) <= top + height
    for one, other in combinations(boxes, 2):
        beside = one[1] <= other[0] or other[1] <= one[0]
        assert beside or abs(one[2] - other[2]) >= 16


@pytest.mark.parametrize(
    ("shares", "shown"),
    [
        ([0.0], ["0.0%"]),
        ([1.0], ["100.0%"]),
        ([1 / 3], ["33.3%"]),
        ([2 / 6000, 0.00009, 0.0012], ["0.033%", "0.009%", "0.120%"]),
        ([0.99996], ["99.996%"]),
        ([1e-17], ["0.0%"]),
    ],
)
def test_only_none_is_shown_as_0_and_only_all_as_100_percent(
    shares: list[float], shown: list[str]
) -> None:
    assert percents(*shares) == shown


def test_a_share_separates_thousands() -> None:
    assert share(rate(2, 6000)) == "2 of 6,000 (0.033%, 95% interval 0.009% to 0.121%)"
    assert share(rate(0, 0)) == "0 of 0"


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_calibration_cuts_no_verdict_and_no_name(width: int) -> None:
    from runyard.doors.malice.replays.calibration import Calibrated, Calibration

    figures = [
        Calibrated(name, 5.0 * (at % 2), 0.4712, low=-0.2667, high=0.7267)
        for at, name in enumerate(FIGURES)
    ]
    shown = lines(Calibration([Path()], [60], 30, figures, 0.5), width)
    head, *told = [unstyle(painted(line)) for line in shown]
    assert head.endswith("figure")
    assert max(len(line) for text in told for line in text.split("\n")) <= max(width, 66)
    for figure, text in zip(figures, told, strict=True):
        assert text.startswith("inside " if figure.inside else "outside ")
        assert " ".join(text.split()).endswith(figure.name)


def alerts(name: str, count: int) -> list[Event]:
    return [
        TaskEmitted(
            batch="b", task=at, attempt=1, kind=ALERT_KIND,
            data={"message": f"run {at + 1}: {name} → BINDER at ticket 9"},
        )
        for at in range(count)
    ]  # fmt: skip


def test_promotions_of_mallory_stay_on_the_screen_and_do_not_flood_it() -> None:
    seen_as = by_tickets(60)
    hers = [seen_as(event) for event in alerts("mallory", KEPT + 5)]
    assert [isinstance(event, Notice) for event in hers] == [True] * KEPT + [False] * 5
    assert isinstance(hers[0], Notice)
    assert hers[0].text == "run 1: mallory → BINDER at ticket 9"
    others = alerts("alice", 2)
    assert [seen_as(event) for event in others] == others


def test_a_log_says_how_many_tickets_a_run_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    begins = BatchStarted(batch="b", total=30, seed=7, backend="processes", workers=2)
    seen = by_tickets(1060)(begins)
    assert isinstance(seen, BatchStarted)
    assert started_line(seen) == "30 tasks on 2 workers (processes, 1,060 tickets each), seed 7"


def test_a_bar_says_that_it_counts_tickets(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    begins = BatchStarted(batch="b", total=30, seed=7, backend="processes", workers=2)
    seen = by_tickets(60)(begins)
    assert isinstance(seen, BatchStarted)
    assert (seen.batch, seen.total) == ("tickets: b", 1800)
