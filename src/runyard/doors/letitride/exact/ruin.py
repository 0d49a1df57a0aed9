"""The exact risk of ruin of a session with flat bets, by a Markov chain.

The states of the chain are the possible bankrolls: the first one, plus multiples of the greatest
common divisor of a hand's results. A session continues between two bounds:

    … insufficient funds │ loss limit │ playing … first bankroll … playing │ win limit …

With a limit of hands, the distribution is advanced hand by hand. Without one, the chain is solved
level by level from the highest bankroll down: how it first falls below a level follows from the
levels above. Both only add, multiply and divide positive numbers, so there is no cancellation.
Bankrolls from which ruin has a probability below `NEGLIGIBLE` count as safe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.game.game import STOP_REASONS
from runyard.errors import UsageError

NEGLIGIBLE = 1e-17
MOST_CELLS = 10_000_000
"""The most numbers held at once: 80 MB."""

STOPS = (*STOP_REASONS, "never")
"""Why a session ends; with a positive expectation and no limits, it may never end."""

Floats = NDArray[np.float64]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a session of flat bets; money in cents."""

    bankroll: int
    needed: int  # to play another hand: three bets and the bonus
    win_limit: int | None = None
    loss_limit: int | None = None
    max_hands: int | None = None


class Ruin(msgspec.Struct, frozen=True):
    """How a session ends: the probability of each reason, including ruin."""

    bankroll: int
    ruin: float
    stops: dict[str, float]
    mean_hands: float | None  # None without a limit of hands or wins
    sessions: int | None = None  # simulated; None: exact
    interval: tuple[float, float] | None = None  # 95% interval of `ruin`, if simulated


class _Chain(NamedTuple):
    """Steps of a hand with their probabilities, and the bounds of play, relative to the start."""

    steps: list[tuple[int, float]]
    lowest: int  # the lowest level at which play continues
    highest: int | None  # the highest such level; None without a win limit
    loss_limit: int | None  # the highest level that stops at the loss limit

    @property
    def down(self) -> int:
        return -min(step for step, _ in self.steps)

    @property
    def up(self) -> int:
        return max(1, max(step for step, _ in self.steps))

    @property
    def limited(self) -> int:
        """How many of the levels just below the lowest stop at the loss limit."""
        first = self.lowest - self.down
        return 0 if self.loss_limit is None else max(0, self.loss_limit - first + 1)

    def landed(self, landings: Floats) -> dict[str, float]:
        """Probabilities of the levels just below the lowest, by the reason for stopping."""
        return {
            "loss_limit": float(landings[: self.limited].sum()),
            "insufficient_funds": float(landings[self.limited :].sum()),
        }


class _End(NamedTuple):
    """How the chain ended: by level just below the lowest, and otherwise."""

    landings: Floats
    won: float
    alive: float
    hands: float | None


def flat_ruin(results: Mapping[int, int], terms: Terms) -> Ruin:
    """The exact answer for flat bets, from the results of a hand in cents and their deals."""
    stopped = _stopped_at_once(terms)
    if stopped is not None:
        return _ended(terms, {stopped: 1.0}, 0.0)
    chain = _chain(results, terms)
    if terms.max_hands is not None:
        end = _carried(chain, terms.max_hands)
    elif terms.win_limit is None and _total(results) <= 0:
        return _certain(chain, terms)
    else:
        end = _solved(chain, terms)
    rest = "never" if terms.max_hands is None else "max_hands"
    stops = {"win_limit": end.won, **chain.landed(end.landings), rest: end.alive}
    return _ended(terms, stops, end.hands)


def _ended(terms: Terms, stops: Mapping[str, float], hands: float | None) -> Ruin:
    found = {name: stops.get(name, 0.0) for name in STOPS}
    return Ruin(terms.bankroll, found["insufficient_funds"], found, hands)


def _stopped_at_once(terms: Terms) -> str | None:
    if terms.win_limit is not None and terms.win_limit <= 0:
        return "win_limit"
    if terms.loss_limit is not None and terms.loss_limit <= 0:
        return "loss_limit"
    if terms.max_hands is not None and terms.max_hands <= 0:
        return "max_hands"
    return "insufficient_funds" if terms.bankroll < terms.needed else None


def _certain(chain: _Chain, terms: Terms) -> Ruin:
    """Without a limit, a game of no positive expectation ends below the lowest level."""
    found = chain.landed(np.ones(chain.down))
    if found["loss_limit"] and found["insufficient_funds"]:
        raise UsageError(
            "the loss limit is too close to the last bets: either may end the session first",
            hint="set a limit on hands or a win limit, or move the loss limit",
        )
    reason = "loss_limit" if found["loss_limit"] else "insufficient_funds"
    return _ended(terms, {reason: 1.0}, None)


def _total(results: Mapping[int, int]) -> int:
    return sum(result * count for result, count in results.items())


def _chain(results: Mapping[int, int], terms: Terms) -> _Chain:
    deals = sum(results.values())
    unit = math.gcd(*results)
    steps = [(result // unit, count / deals) for result, count in results.items()]
    lowest = -((terms.bankroll - terms.needed) // unit)
    loss_limit = None
    if terms.loss_limit is not None:
        loss_limit = -terms.loss_limit // unit
        lowest = max(lowest, loss_limit + 1)
    highest = None if terms.win_limit is None else (terms.win_limit - 1) // unit
    return _Chain(steps, lowest, highest, loss_limit)


def _carried(chain: _Chain, hands: int) -> _End:
    """Advance the distribution hand by hand.

    If several reasons apply, the first in `STOPS` counts: a player who can't pay for another hand
    after the last one has played all hands.
    """
    safe = None if chain.highest is not None else _safe_heights(chain, hands)
    top = chain.highest if safe is None else chain.lowest + int(safe.max())
    assert top is not None
    width = max(top, 0) - chain.lowest + 1
    _check_size(width + chain.down)
    playing = np.zeros(width)
    playing[-chain.lowest] = 1.0
    landings, last = np.zeros(chain.down), np.zeros(chain.down)
    above = played = 0.0
    for left in range(hands - 1, -1, -1):
        played += float(playing.sum()) + (above if safe is not None else 0.0)
        playing, over = _next(chain, playing, landings if left else last)
        above += over
        if safe is not None:
            above += float(playing[safe[left] :].sum())
            playing = playing[: safe[left]]
    alive = float(playing.sum()) + chain.landed(last)["insufficient_funds"]
    landings[: chain.limited] += last[: chain.limited]
    if safe is not None:
        return _End(landings, 0.0, alive + above, played)
    return _End(landings, above, alive, played)


def _next(chain: _Chain, playing: Floats, landings: Floats) -> tuple[Floats, float]:
    """Play one more hand; what falls below the lowest level is added to the landings."""
    after = np.zeros_like(playing)
    width, down = len(playing), chain.down
    over = 0.0
    for step, share in chain.steps:
        size = min(abs(step), width)
        if step < 0:
            after[: width - size] += share * playing[size:]
            landings[down + step : down + step + size] += share * playing[:size]
        else:
            after[size:] += share * playing[: width - size]
            over += share * float(playing[width - size :].sum())
    return after, over


def _safe_heights(chain: _Chain, hands: int) -> NDArray[np.int64]:
    """By hands left: how far above the lowest level ruin is negligible (Chernoff bound)."""
    rates = np.geomspace(1e-7, 20.0 / chain.down, 100)
    left = np.arange(hands + 1)
    growth = _growth(chain, rates)
    costs = -math.log(NEGLIGIBLE) + np.maximum(0.0, left[:, None] * growth)
    surely = left * chain.down
    found: NDArray[np.int64] = np.minimum(np.ceil((costs / rates).min(axis=1)), surely).astype(int)
    return found


def _growth(chain: _Chain, rates: Floats) -> Floats:
    """The logarithm of the mean of exp(-rate * step), by rate."""
    steps = np.array([step for step, _ in chain.steps], dtype=np.float64)
    shares = np.array([share for _, share in chain.steps])
    found: Floats = np.log(np.exp(-np.outer(rates, steps)) @ shares)
    return found


def _solved(chain: _Chain, terms: Terms) -> _End:
    """Solve the chain without a limit of hands, from the highest level down.

    A row holds, for a level: the probability of each level just below the current one that it falls
    to first (level s in column s modulo `down`), of winning instead, and the mean of hands.
    """
    down, lowest = chain.down, chain.lowest
    highest = _negligible_level(chain) if chain.highest is None else chain.highest
    _check_size((highest - lowest + 1) * (down + 2))
    rows = np.zeros((highest - lowest + 1, down + 2))
    for level in range(highest, lowest - 1, -1):
        at = level - lowest
        found = _first_fall(chain, rows, level, highest)
        rows[at] = found
        for affected in (slice(at + 1, at + chain.up + 1), *_start_row(chain, level)):
            reached = rows[affected, level % down].copy()
            rows[affected, level % down] = 0.0
            rows[affected] += reached[:, None] * found
    start = rows[-lowest]
    landings = start[[level % down for level in range(lowest - down, lowest)]]
    won, hands = float(start[down]), float(start[down + 1])
    if terms.win_limit is None:
        return _End(landings, 0.0, won, None)
    return _End(landings, won, 0.0, hands)


def _first_fall(chain: _Chain, rows: Floats, level: int, highest: int) -> Floats:
    """The row of a level, from the rows of those above it."""
    down = chain.down
    found = np.zeros(down + 2)
    for step, share in chain.steps:
        if step > 0:
            if level + step > highest:
                found[down] += share
            else:
                found += share * rows[level + step - chain.lowest]
    found[level % down] = 0.0  # back at the same level: starts over
    found[down + 1] += 1.0
    for step, share in chain.steps:
        if step < 0:
            found[(level + step) % down] += share
    found /= found[: down + 1].sum()
    return found


def _start_row(chain: _Chain, level: int) -> tuple[slice, ...]:
    """The row of the first bankroll, once it is too far up to be reached from the level."""
    start = -chain.lowest
    return (slice(start, start + 1),) if start > level - chain.lowest + chain.up else ()


def _negligible_level(chain: _Chain) -> int:
    """The level above which a game that gains never comes down again, but for a negligible part."""
    rates = np.geomspace(1e-9, 20.0 / chain.down, 4000)
    falling = rates[_growth(chain, rates) <= 0]
    if not len(falling):
        raise UsageError(
            "the game's expectation is too small for an answer without a limit of hands",
            hint="set a limit on hands or a win limit",
        )
    return max(0, chain.lowest + math.ceil(-math.log(NEGLIGIBLE) / float(falling.max())))


def _check_size(cells: int) -> None:
    if cells > MOST_CELLS:
        raise UsageError(
            f"these amounts make a chain of {cells:,} numbers, more than {MOST_CELLS:,}",
            hint="use bets and limits with a larger common divisor, or lower limits",
        )
