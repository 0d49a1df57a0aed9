"""The best play as a few memorable rules, for any paytable.

A rule is a condition in the language of custom strategies, so rules can be copied into a
configuration. A bet rides if one of them holds. Made hands come first; then hands of different
ranks, in boxes: bounds on suits, straights and high cards. The largest box without a hand to be
pulled is taken until every riding hand is in a box.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from runyard.doors.letitride.cards.profiles import SPELLED, Profile, counted
from runyard.doors.letitride.game.optimal import Choice

_MADE = {
    "low_pair": "pairs == 1 and not has_high_pair",
    "pair_tens_or_better": "pairs == 1 and has_high_pair",
    "two_pair": "pairs == 2",
    "three_of_a_kind": "of_a_kind == 3",
    "four_of_a_kind": "of_a_kind == 4",
}


class Rule(NamedTuple):
    """A condition under which a bet rides, and its wording."""

    condition: str
    text: str


class _Box(NamedTuple):
    """Hands of different ranks whose straights and high cards are within bounds."""

    size: int
    suited: bool | None  # None: either
    straights: tuple[int, int]
    high_cards: tuple[int, int]

    def holds(self, profile: Profile) -> bool:
        return (
            not profile.made
            and self.suited in (None, profile.suited)
            and self.straights[0] <= profile.straights <= self.straights[1]
            and self.high_cards[0] <= profile.high_cards <= self.high_cards[1]
        )


def rules(choices: Sequence[Choice]) -> list[Rule]:
    """Rules that hold for exactly those hands with which a bet should ride."""
    if all(choice.ride for choice in choices):
        return [Rule("default", "always")]
    return [*_made_rules(choices), *_drawing_rules(choices)]


def _made_rules(choices: Sequence[Choice]) -> list[Rule]:
    made = [choice for choice in choices if choice.profile.made]
    riding = {choice.profile.made for choice in made if choice.ride}
    if len(riding) == len(made):
        return [Rule("has_pair", "any pair or better")]
    if riding == {choice.profile.made for choice in made} - {"low_pair"}:
        return [Rule("has_paying_hand", "a hand that pays already")]
    return [Rule(_MADE[name], name.replace("_", " ")) for name in _MADE if name in riding]


def _drawing_rules(choices: Sequence[Choice]) -> list[Rule]:
    drawing = [choice for choice in choices if not choice.profile.made]
    pulled = [choice.profile for choice in drawing if not choice.ride]
    left = {choice.profile for choice in drawing if choice.ride}
    limits = _limits(drawing)
    boxes = [box for box in _boxes(limits) if not any(map(box.holds, pulled))]
    found = []
    while left:
        best = max(boxes, key=lambda box: (sum(map(box.holds, left)), -_bounds(box, limits)))
        left -= {profile for profile in left if best.holds(profile)}
        found.append(best)
    return [_rule(box, limits) for box in sorted(found, key=_order)]


def _order(box: _Box) -> tuple[bool, int, int]:
    """Sort key: suited first, then more straights, then fewer high cards."""
    return not box.suited, -box.straights[0], box.high_cards[0]


def _limits(drawing: Sequence[Choice]) -> _Box:
    """The box that contains every hand."""
    profiles = [choice.profile for choice in drawing]
    straights = max(profile.straights for profile in profiles)
    high_cards = max(profile.high_cards for profile in profiles)
    return _Box(profiles[0].size, None, (0, straights), (0, high_cards))


def _boxes(limits: _Box) -> Iterator[_Box]:
    straights = combinations_with_replacement(range(limits.straights[1] + 1), 2)
    high_cards = list(combinations_with_replacement(range(limits.high_cards[1] + 1), 2))
    for suited, first, second in product((None, True, False), list(straights), high_cards):
        yield _Box(limits.size, suited, first, second)


def _bounds(box: _Box, limits: _Box) -> int:
    """The number of bounds needed to describe a box."""
    pairs = ((box.straights, limits.straights), (box.high_cards, limits.high_cards))
    bounds = sum((a > low) + (b < high) for (a, b), (low, high) in pairs)
    return bounds + (box.suited is not None)


def _rule(box: _Box, limits: _Box) -> Rule:
    conditions = (
        [] if box.suited is None else ["is_flush_draw" if box.suited else "not is_flush_draw"]
    )
    conditions += _compared("straights", box.straights, limits.straights)
    conditions += _compared("high_cards", box.high_cards, limits.high_cards)
    if not box.suited and not box.straights[0]:
        conditions.insert(0, "not has_pair")
    words = [_start(box)]
    if box.straights[0] > 1 or box.straights[1] < limits.straights[1]:
        words.append(f"in {_between(box.straights, limits.straights, 'straight')}")
    if box.high_cards != limits.high_cards:
        words.append(f"with {_between(box.high_cards, limits.high_cards, 'high card')}")
    return Rule(" and ".join(conditions), ", ".join(words))


def _start(box: _Box) -> str:
    spelled = SPELLED[box.size]
    if box.suited:
        return f"{spelled} to a {'straight flush' if box.straights[0] else 'flush'}"
    suits = "" if box.suited is None else " of several suits"
    return f"{spelled} to a straight{suits}" if box.straights[0] else f"no pair{suits}"


def _compared(fact: str, bounds: tuple[int, int], limits: tuple[int, int]) -> list[str]:
    low, high = bounds
    if low == high:
        return [f"{fact} == {low}"]
    above = [f"{fact} >= {low}"] if low > limits[0] else []
    return above + ([f"{fact} <= {high}"] if high < limits[1] else [])


def _between(bounds: tuple[int, int], limits: tuple[int, int], noun: str) -> str:
    low, high = bounds
    if low == high:
        return counted(low, noun)
    if high == limits[1]:
        return f"at least {counted(low, noun)}"
    if low == limits[0]:
        return f"at most {counted(high, noun)}"
    return f"{low} to {counted(high, noun)}"
