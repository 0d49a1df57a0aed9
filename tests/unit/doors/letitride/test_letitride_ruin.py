"""Ruin: closed forms where there are some, a plain recursion in fractions, and sessions played."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.doors.letitride.cards.paytables import STANDARD, MainTable
from runyard.doors.letitride.exact.ruin import STOPS, Terms, flat_ruin
from runyard.doors.letitride.exact.tally import Tally
from runyard.doors.letitride.game.optimal import optimal
from runyard.errors import UsageError

NOTHING = [0] * 7
GENEROUS = MainTable.of({"pair_tens_or_better": 2}, STANDARD)


@pytest.fixture(scope="module")
def standard() -> dict[int, int]:
    return Tally(optimal(STANDARD)).results(STANDARD.pays, NOTHING)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def generous() -> dict[int, int]:
    return Tally(optimal(GENEROUS)).results(GENEROUS.pays, NOTHING)  # type: ignore[arg-type]


def coin(wins: int, losses: int) -> dict[int, int]:
    return {1: wins, -1: losses}


@pytest.mark.parametrize(("wins", "losses"), [(9, 11), (11, 9), (3, 7)])
@pytest.mark.parametrize(("bankroll", "win_limit"), [(1, 1), (10, 10), (30, 5), (3, 200)])
def test_a_coin_has_the_ruin_and_the_length_of_the_closed_form(
    wins: int, losses: int, bankroll: int, win_limit: int
) -> None:
    found = flat_ruin(coin(wins, losses), Terms(bankroll=bankroll, needed=1, win_limit=win_limit))
    r, top = losses / wins, bankroll + win_limit
    won = (1 - r**bankroll) / (1 - r**top)
    drift = (losses - wins) / (losses + wins)
    assert found.stops["win_limit"] == pytest.approx(won, rel=1e-11)
    assert found.ruin == pytest.approx(1 - won, rel=1e-9)
    assert found.mean_hands == pytest.approx((bankroll - top * won) / drift, rel=1e-9)


@pytest.mark.parametrize("bankroll", [1, 5, 40, 200])
def test_a_coin_that_gains_is_ruined_as_the_closed_form_says(bankroll: int) -> None:
    found = flat_ruin(coin(11, 9), Terms(bankroll=bankroll, needed=1))
    assert found.ruin == pytest.approx((9 / 11) ** bankroll, rel=1e-9, abs=1e-16)
    assert found.stops["never"] == pytest.approx(1 - (9 / 11) ** bankroll)
    assert found.mean_hands is None


@pytest.mark.parametrize("odds", [(1, 1), (9, 11)])
def test_a_coin_that_gains_nothing_is_ruined_for_certain_in_the_end(odds: tuple[int, int]) -> None:
    assert flat_ruin(coin(*odds), Terms(bankroll=1000, needed=1)).ruin == 1.0


def recursion(results: Mapping[int, int], terms: Terms) -> dict[str, Fraction]:
    """How a session ends, in fractions, by asking the same before every hand."""
    deals = sum(results.values())
    start = terms.bankroll

    @cache
    def ends(bankroll: int, hands: int) -> tuple[Fraction, ...]:
        checks = (
            terms.win_limit is not None and bankroll - start >= terms.win_limit,
            terms.loss_limit is not None and start - bankroll >= terms.loss_limit,
            hands == terms.max_hands,
            bankroll < terms.needed,
        )
        if any(checks):
            return tuple(Fraction(place == checks.index(True)) for place in range(4))
        further = [(ends(bankroll + result, hands + 1), n) for result, n in results.items()]
        return tuple(
            sum((each[place] * n for each, n in further), Fraction()) / deals for place in range(4)
        )

    return dict(zip(STOPS, ends(start, 0), strict=False))


games = st.dictionaries(st.integers(-4, 9), st.integers(1, 20), min_size=2, max_size=5).filter(
    lambda results: min(results) < 0
)
limits = st.none() | st.integers(1, 15)


@given(games, st.integers(0, 20), st.integers(1, 6), limits, limits, st.integers(0, 9))
@settings(max_examples=300)
def test_sessions_with_a_limit_of_hands_end_as_a_plain_recursion_says(
    results: dict[int, int],
    bankroll: int,
    needed: int,
    win_limit: int | None,
    loss_limit: int | None,
    max_hands: int,
) -> None:
    terms = Terms(
        bankroll=bankroll, needed=needed, win_limit=win_limit, loss_limit=loss_limit,
        max_hands=max_hands,
    )  # fmt: skip
    found = flat_ruin(results, terms)
    expected = recursion(results, terms)
    for reason, probability in expected.items():
        assert found.stops[reason] == pytest.approx(float(probability), abs=1e-13)
    assert found.ruin == found.stops["insufficient_funds"]
    assert sum(found.stops.values()) == pytest.approx(1)


@given(games, st.integers(5, 15), st.integers(1, 4), st.integers(1, 15), limits)
@settings(max_examples=60)
def test_a_chain_without_a_limit_of_hands_is_where_long_sessions_lead(
    results: dict[int, int],
    bankroll: int,
    needed: int,
    win_limit: int,
    loss_limit: int | None,
) -> None:
    terms = Terms(bankroll=bankroll, needed=needed, win_limit=win_limit, loss_limit=loss_limit)
    found = flat_ruin(results, terms)
    limited = flat_ruin(results, msgspec.structs.replace(terms, max_hands=1000))
    for reason in ("win_limit", "loss_limit", "insufficient_funds"):
        further = found.stops[reason] - limited.stops[reason]
        assert -1e-12 <= further <= limited.stops["max_hands"] + 1e-12
    assert sum(found.stops.values()) == pytest.approx(1)


def test_a_game_that_gains_is_ruined_as_in_sessions_that_last_long(
    generous: dict[int, int],
) -> None:
    for bankroll in (3, 20, 100):
        found = flat_ruin(generous, Terms(bankroll=bankroll, needed=3))
        limited = flat_ruin(generous, Terms(bankroll=bankroll, needed=3, max_hands=4000))
        assert found.ruin == pytest.approx(limited.ruin, rel=1e-6)


@pytest.mark.parametrize("bankroll", [20, 100, 200])
def test_bankrolls_that_count_as_safe_change_no_answer(
    standard: dict[int, int],
    generous: dict[int, int],
    bankroll: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions = Terms(bankroll=bankroll, needed=3, max_hands=500)
    endless = Terms(bankroll=bankroll, needed=3)
    found = flat_ruin(standard, sessions), flat_ruin(generous, endless)
    monkeypatch.setattr("runyard.doors.letitride.exact.ruin.NEGLIGIBLE", 1e-60)
    surer = flat_ruin(standard, sessions), flat_ruin(generous, endless)
    for a, b in zip(found, surer, strict=True):
        assert abs(a.ruin - b.ruin) < 1e-15


def test_more_money_means_less_ruin_and_bets_of_another_size_the_same(
    standard: dict[int, int],
) -> None:
    found = [
        flat_ruin(standard, Terms(bankroll=money, needed=3, max_hands=200)).ruin
        for money in (3, 10, 20, 50, 100, 200, 700)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9
    assert found[-1] == 0.0
    larger = {500 * result: count for result, count in standard.items()}
    terms = Terms(bankroll=10_000, needed=1500, max_hands=200)
    assert flat_ruin(larger, terms).ruin == found[2]


def test_the_chain_ends_as_sessions_that_are_drawn_do(standard: dict[int, int]) -> None:
    terms = Terms(bankroll=20, needed=3, win_limit=30, max_hands=100)
    found = flat_ruin(standard, terms)
    sessions = 40_000
    values = np.array(list(standard))
    shares = np.array(list(standard.values())) / sum(standard.values())
    drawn = np.random.default_rng(7).choice(values, (terms.max_hands, sessions), p=shares)
    money = np.full(sessions, 20)
    reason = np.full(sessions, -1)
    for hand in range(101):
        checks = [money - 20 >= 30, money < -1, np.full(sessions, hand == 100), money < 3]
        for place, met in enumerate(checks):
            reason[(reason < 0) & met] = place
        if hand < 100:
            money = money + np.where(reason < 0, drawn[hand], 0)
    for place, name in enumerate(STOPS[:4]):
        p = found.stops[name]
        error = math.sqrt(p * (1 - p) / sessions)
        assert abs((reason == place).mean() - p) <= 4 * error


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (Terms(bankroll=14, needed=15, max_hands=9), "insufficient_funds"),
        (Terms(bankroll=14, needed=15, max_hands=0), "max_hands"),
        (Terms(bankroll=14, needed=15, loss_limit=0), "loss_limit"),
        (Terms(bankroll=14, needed=15, loss_limit=0, win_limit=0), "win_limit"),
    ],
)
def test_a_session_may_be_over_before_it_begins(terms: Terms, reason: str) -> None:
    found = flat_ruin(coin(1, 1), terms)
    assert found.stops[reason] == 1
    assert found.mean_hands == 0


def test_a_chain_that_would_not_fit_into_memory_is_refused(standard: dict[int, int]) -> None:
    with pytest.raises(UsageError, match="make a chain of") as refused:
        flat_ruin(standard, Terms(bankroll=100, needed=3, win_limit=10**9))
    assert "common divisor" in (refused.value.hint or "")


def test_two_ends_that_cannot_be_told_apart_are_refused(standard: dict[int, int]) -> None:
    with pytest.raises(UsageError, match="either may end the session first"):
        flat_ruin(standard, Terms(bankroll=100, needed=3, loss_limit=99))
    assert (
        flat_ruin(standard, Terms(bankroll=100, needed=3, loss_limit=50)).stops["loss_limit"] == 1
    )
