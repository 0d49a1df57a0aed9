"""Charts and bars of text: what they say of sessions, and that figures stand apart."""

from __future__ import annotations

import re
from typing import Any, get_args

import numpy as np
import pytest

from runyard.doors.letitride.config.model import FullConfig, StrategyName
from runyard.doors.letitride.config.output import ChartConfig
from runyard.doors.letitride.engine import columns
from runyard.doors.letitride.report import charts
from runyard.doors.letitride.report.aggregate import Aggregate
from runyard.doors.letitride.report.section import _figures as figures_table
from runyard.doors.letitride.report.text import figure_lines, histogram_text


def sessions(config: dict[str, Any], **cents: list[int]) -> Aggregate:
    """What sessions with these columns add up to."""
    made = FullConfig.from_data(config)
    found = columns.empty(len(next(iter(cents.values()))))
    found |= {name: np.array(values) for name, values in cents.items()}
    found["final_bankroll"] = 50_000 + found["main_profit"] + found["bonus_profit"]
    found["hands_played"] += 10
    aggregate = Aggregate(made)
    aggregate.add(found)
    return aggregate


def texts(svg: object) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", str(svg))


def test_the_impact_of_the_bonus_is_told_apart_from_the_main_game() -> None:
    found = sessions(
        {}, main_profit=[-3000, -1000, 1000], bonus_profit=[-500, 400, -200],
        total_bonus_wagered=[500, 500, 500],
    )  # fmt: skip
    drawn = texts(charts.chart(ChartConfig(type="bonus_impact"), found, lambda _: []))
    assert drawn[0] == charts.TITLES["bonus_impact"]
    rows = ["main game", "mean −10.00", "bonus", "mean −1.00", "both", "mean −11.00"]
    assert [text for text in drawn if text in rows] == rows


def test_without_a_bonus_its_chart_says_so() -> None:
    found = sessions({}, main_profit=[-3000, 1000], bonus_profit=[0, 0])
    assert "no bonus bets" in texts(charts.bonus_impact("", found))


def test_the_exact_ev_of_a_bonus_that_is_not_played_is_not_minus_zero() -> None:
    found = sessions({}, main_profit=[-3000, 1000], bonus_profit=[0, 0])
    assert str(found.exact["bonus_ev_per_hand"]) == "0.0"


def test_no_figure_is_minus_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sessions({}, main_profit=[-3000, 1000], bonus_profit=[0, 0])
    nothing = {"value": -1e-9, "low": -1e-9, "high": 1e-9, "exact": -1e-9, "z": -1e-9}
    monkeypatch.setattr(Aggregate, "figures", lambda _: {"ev_per_hand": dict(nothing)})
    for shown in ("\n".join(figure_lines(found)), str(figures_table(found))):
        assert "+0.00" in shown
        assert not re.search(r"[-−]0\.0+(?!\d|e)", shown)


@pytest.mark.parametrize(
    ("strategy", "further"),
    [({"type": "aggressive"}, []),
     ({"type": "conservative", "conservative": {"min_strength_bet1": 7}}, ["as played"])],
)  # fmt: skip
def test_strategies_are_compared_by_their_exact_ev(
    strategy: dict[str, Any], further: list[str]
) -> None:
    found = sessions({"strategy": strategy}, main_profit=[0], bonus_profit=[0])
    drawn = texts(charts.chart(ChartConfig(type="strategy_comparison"), found, lambda _: []))
    assert [t for t in drawn if t in (*get_args(StrategyName), "as played")] == [
        *get_args(StrategyName), *further,
    ]  # fmt: skip
    assert "−0.03506" in drawn


def test_bars_of_text_begin_in_one_column() -> None:
    profits = list(range(-250_000_000, 250_000_000, 1_000_000))
    found = sessions({}, main_profit=profits, bonus_profit=[0] * len(profits))
    _, *lines = histogram_text(found).splitlines()
    assert len({re.search("[█▏▎▍▌▋▊▉]", line).start() for line in lines}) == 1  # type: ignore[union-attr]


def test_a_long_title_stays_on_its_chart() -> None:
    found = sessions({}, main_profit=[0, 5], bonus_profit=[0, 0])
    config = ChartConfig(type="hand_frequency", title="word " * 40)
    drawn = texts(charts.chart(config, found, lambda _: []))
    assert len(drawn[0]) == charts.LONGEST_TITLE
