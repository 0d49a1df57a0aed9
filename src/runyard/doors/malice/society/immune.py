"""The immune system: the frequency of contrarians' votes follows the number of promotions.

Few promotions lower the frequency, many raise it. In the published experiment nothing reads it, so
it has no effect; in mode `wired` the contrarians' votes depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from runyard.errors import BadSpec

Mode = Literal["off", "logged", "wired"]
MODES: tuple[Mode, ...] = ("off", "logged", "wired")
CONTRARIANS = ("eve", "dave", "zara")


class ImmuneRules(msgspec.Struct, frozen=True):
    """When frequencies change, and by how much."""

    base: float = 0.26
    lowest: float = 0.18
    highest: float = 0.38
    first: int = 8  # the ticket from which it acts
    apart: int = 5  # tickets between two adjustments, at least
    window: int = 12  # tickets over which promotions are counted
    low: float = 0.15  # promotions a ticket: at most this is LOW
    high: float = 0.35  # at least this is HIGH
    high_count: int = 5  # and at least this number of them
    reduction: float = 0.65
    boost: float = 1.5
    remembered: int = 3  # earlier similar counts from which a change is damped
    similar: int = 1  # the difference up to which counts are similar
    dampening: float = 0.9
    least_change: float = 0.01


class Adjusted(msgspec.Struct, frozen=True):
    """An adjustment of frequencies."""

    ticket: int
    level: Literal["LOW", "HIGH"]
    promotions: int  # within the window
    before: dict[str, float]
    after: dict[str, float]
    capped: dict[str, bool]
    multiplier: float
    damped: bool


class ImmuneSystem:
    """Follows the promotions of one run."""

    def __init__(
        self,
        mode: Mode = "logged",
        agents: Sequence[str] = CONTRARIANS,
        rules: ImmuneRules | None = None,
    ) -> None:
        if mode not in MODES:
            raise BadSpec(f"immune is {mode!r}", hint=f"use one of: {', '.join(MODES)}")
        self.mode = mode
        self.rules = rules or ImmuneRules()
        self.frequencies = dict.fromkeys(agents, self.rules.base)
        self._promotions: list[int] = []
        self._counts: list[int] = []
        self._last: int | None = None

    def frequency(self, name: str) -> float:
        """The share of this agent's messages that may hold a vote."""
        return self.frequencies.get(name, 1.0) if self.mode == "wired" else 1.0

    def observe(self, ticket: int, promotions: int) -> Adjusted | None:
        """Record the promotions of one ticket; return the adjustment that follows, if any."""
        self._promotions += [ticket] * promotions
        rules = self.rules
        if self.mode == "off" or ticket < rules.first:
            return None
        if self._last is not None and ticket - self._last < rules.apart:
            return None
        count = sum(each > ticket - rules.window for each in self._promotions)
        level = self._level(count)
        if level is None:
            return None
        alike = sum(abs(each - count) <= rules.similar for each in self._counts)
        return self._adjust(ticket, level, count, alike >= rules.remembered)

    def _level(self, count: int) -> Literal["LOW", "HIGH"] | None:
        rules = self.rules
        rate = count / rules.window
        if rate <= rules.low:
            return "LOW"
        return "HIGH" if rate >= rules.high and count >= rules.high_count else None

    def _adjust(
        self, ticket: int, level: Literal["LOW", "HIGH"], count: int, damped: bool
    ) -> Adjusted | None:
        rules = self.rules
        multiplier = rules.reduction if level == "LOW" else rules.boost
        factor = multiplier * (rules.dampening if damped else 1.0)
        before, after, capped = {}, {}, {}
        for name, old in self.frequencies.items():
            new = min(rules.highest, max(rules.lowest, old * factor))
            if abs(new - old) >= rules.least_change:
                before[name], after[name], capped[name] = old, new, new != old * factor
        if not after:
            return None
        self.frequencies |= after
        self._last = ticket
        self._counts.append(count)
        return Adjusted(ticket, level, count, before, after, capped, multiplier, damped)
