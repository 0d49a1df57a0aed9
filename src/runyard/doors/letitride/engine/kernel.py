"""The compiled engine: plays sessions with lookup tables instead of rules.

    seed ──▶ one number a hand ──▶ five sorted cards ──▶ numbers of 3, 4, 5 cards ──▶ tables

Decisions and categories are looked up by a hand's number (see `tables`); bets follow a ladder or
the bankroll. There are hardly any unpredictable branches. It plays everything that a configuration
can describe, with the same results as `reference`, to the cent.

This module imports numba; only `play` imports it, when sessions are to be played.
"""

from __future__ import annotations

import numpy as np

from runyard.doors.letitride.cards.generator import FURTHER_SEATS
from runyard.doors.letitride.engine.kernel_cards import (
    advance,
    compiled,
    five_cards,
    four_upwards,
    inlined,
    mix,
    others_dealt,
    packed_cards,
)
from runyard.doors.letitride.engine.kernel_rules import (
    BONUS_CONDITIONS,
    BONUS_STREAKS,
    RANK_HANDS,
    lookup_of,
    rules_of,
)

__all__ = ["LOG_WIDTH", "is_kept", "lookup_of", "play", "rules_of"]

LOG_WIDTH = 8
"""Numbers in a log line: cards, rides, category, bet, bonus bet, both profits, bankroll."""

_U = np.uint64


@inlined
def conditional_bonus(rules, bankroll, peak):  # type: ignore[no-untyped-def]
    """The bonus bet by conditions; same as `bonus.Conditions.bet`."""
    profit = bankroll - rules.start
    if profit < rules.least_profit or bankroll < rules.least_bankroll:
        return 0
    if (peak - bankroll) * 1_000_000 > rules.most_drawdown * peak:
        return 0
    amount = rules.bonus_base
    if rules.profit_share != 0 and profit > 0:
        amount = profit * rules.profit_share // 1_000_000
    for tier in range(len(rules.tiers)):
        if rules.tiers[tier, 0] <= profit and profit < rules.tiers[tier, 1]:
            amount = rules.tiers[tier, 2]
            break
    fitting = min(amount, rules.bonus_high) // rules.bonus_step * rules.bonus_step
    return fitting if fitting >= max(rules.bonus_low, 1) else 0


@inlined
def after_hand(rules, main, bonus, run, streaks):  # type: ignore[no-untyped-def]
    """The run and the streaks after a hand; same as `bonus.StreakBonus.record`."""
    results = (main, bonus, main + bonus)
    if results[rules.reset] * rules.reset_sign > 0:
        run = streaks = 0
    event = results[rules.trigger] * rules.trigger_sign
    if event < 0:
        run = 0
    elif event > 0:
        run += 1
        if run == rules.streak_length:
            run = 0
            streaks = min(streaks + 1, len(rules.streak_bets) - 1)
    return run, streaks


@inlined
def bet_of(rules, rung, bankroll, bonus_bet):  # type: ignore[no-untyped-def]
    """One of the three bets: as the system says, or as much as the bankroll covers."""
    if rules.share == 0:
        bet = rules.bets[rung]
    else:
        bet = bankroll * rules.share // 1_000_000 // rules.multiple * rules.multiple
        bet = min(max(bet, rules.low), rules.high)
    if 3 * bet + bonus_bet > bankroll:
        bet = (bankroll - bonus_bet) // 3
    return bet


@inlined
def paid(rules, bet, pay):  # type: ignore[no-untyped-def]
    """The gain of a bet; same as `money.payout`."""
    gain = bet * pay
    return gain if rules.unit == 1 else gain // rules.unit


@inlined
def judged(lookup, p, q, r, d, e, s, t, u, v):  # type: ignore[no-untyped-def]
    """The table entry of three cards, whether bet 2 rides, and the category of all five.

    Cards p, q, r and s, t, u, v are ascending. In a hand's number the lowest card counts as itself.
    """
    of_three = lookup.three[p + lookup.twos[q] + lookup.threes[r]]
    of_four = lookup.four[s + lookup.twos[t] + lookup.threes[u] + lookup.fours[v]]
    w, x = min(s, e), max(s, e)
    x, y = min(x, t), max(x, t)
    y, z = min(y, u), max(y, u)
    z, top = min(z, v), max(z, v)
    five = (w >> np.uint32(2)) + lookup.rank_twos[x] + lookup.rank_threes[y]
    five += lookup.rank_fours[z] + lookup.rank_fives[top]
    if ((p ^ q) | (p ^ r) | (p ^ d) | (p ^ e)) & np.uint32(3) == 0:  # all of one suit
        five += np.uint32(RANK_HANDS)
    return of_three, np.int64(of_four), lookup.ranks[five]


@inlined
def play_seat(rules, lookup, s0, s1, seat, row, whole, percent, seen, log, used, own):  # type: ignore[no-untyped-def]  # noqa: C901
    """Play one seat's session into its row; `used` and `own` are buffers for cards."""
    t0, t1 = mix(s0 + _U(FURTHER_SEATS)), mix(s1 + _U(FURTHER_SEATS))
    s0 = _U(1) if s0 | s1 == 0 else s0
    t0 = _U(1) if t0 | t1 == 0 else t0
    start, hands = rules.start, rules.hands
    upper, lower = start + rules.win_limit, start - rules.loss_limit
    bankroll = peak = start
    wagered = bonus_wagered = main_profit = bonus_profit = deepest = 0
    deepest_pct = 0.0
    rung = hand = run = streaks = bonus_bet = 0
    while True:
        if rules.bonus == BONUS_CONDITIONS:
            bonus_bet = conditional_bonus(rules, bankroll, peak)
        elif rules.bonus == BONUS_STREAKS:
            bonus_bet = rules.streak_bets[streaks]
        won, lost = bankroll >= upper, bankroll <= lower
        if won | lost | (hand >= hands) | (bankroll < 3 * rules.base + bonus_bet):
            break
        bet = bet_of(rules, rung, bankroll, bonus_bet)
        number, s0, s1 = advance(s0, s1)
        p, q, r, d, e, s, t, u, v = five_cards(number)
        if seat > 0:
            t0, t1 = others_dealt(t0, t1, seat, rules.seats, p, q, r, d, e, used, own)
            p, q, r = own[0], own[1], own[2]
            s, t, u, v = four_upwards(p, q, r, d)
        of_three, second, category = judged(lookup, p, q, r, d, e, s, t, u, v)
        riding = 1 + np.int64(of_three & 1) + second
        main = riding * paid(rules, bet, rules.main_pays[category])
        bonus = 0
        if bonus_bet > 0:
            bonus = paid(rules, bonus_bet, rules.bonus_pays[of_three >> 1])
            bonus_wagered += bonus_bet
            bonus_profit += bonus
        hand += 1
        seen[category] += 1
        wagered += bet * riding
        main_profit += main
        bankroll += main + bonus
        peak = max(peak, bankroll)
        if peak - bankroll > deepest:
            deepest = peak - bankroll
            deepest_pct = max(deepest_pct, deepest / peak)
        if len(rules.bets) > 1:
            net = main + bonus
            rung = rules.steps[rung, 1 + np.int64(net > 0) - np.int64(net < 0)]
        if rules.bonus == BONUS_STREAKS:
            run, streaks = after_hand(rules, main, bonus, run, streaks)
        if len(log) > 0:
            line = log[row * hands + hand - 1]
            line[0], line[1] = packed_cards(p, q, r, d, e), np.int64(of_three & 1) + 2 * second
            line[2], line[3], line[4] = category, bet, bonus_bet
            line[5], line[6], line[7] = main, bonus, bankroll
    reason = 0 if won else 1 if lost else 2 if hand >= hands else 3
    whole[0, row], whole[1, row], whole[2, row] = hand, reason, bankroll
    whole[3, row], whole[4, row] = wagered, bonus_wagered
    whole[5, row], whole[6, row] = main_profit, bonus_profit
    whole[7, row], whole[8, row] = peak, deepest
    percent[row] = deepest_pct


def _play(rules, lookup, seeds, first, last, whole, percent, counts, log):  # type: ignore[no-untyped-def]
    """Play sessions `first` to `last` of the seeds; rows of `whole` as in `columns.NAMES`."""
    used, own, seen = np.zeros(52, np.uint32), np.zeros(3, np.uint32), np.zeros(11, np.int32)
    for session in range(first, last):
        for seat in range(rules.seats):
            row = session * rules.seats + seat
            s0, s1 = seeds[session, 0], seeds[session, 1]
            seen[:] = 0
            play_seat(rules, lookup, s0, s1, seat, row, whole, percent, seen, log, used, own)
            counts[row, :] = seen


play = compiled(_play)


def is_kept() -> bool:
    """Whether the compiled kernel is on disk."""
    return bool(play.stats.cache_path) and bool(play.stats.cache_hits or play.stats.cache_misses)
