"""Who speaks next, and when; time is virtual and nothing waits for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from runyard.doors.malice.society.chance import RandomStream


class Pacing(msgspec.Struct, frozen=True):
    """How often users speak; times in seconds."""

    speaks: float = 0.3  # the probability that a user who is asked speaks
    least: float = 2.0  # between two questions, at least
    most: float = 4.0  # between two questions, at most
    latency: float = 2.0  # added for each message
    messages: int = 3  # a user with this many in the window is passed over
    window: float = 300.0


class Floor:
    """Asks one user after another, at random, until one speaks."""

    def __init__(
        self, names: Sequence[str], chance: RandomStream, pace: Pacing | None = None
    ) -> None:
        self.time = 0.0
        self._names = tuple(names)
        self._chance = chance
        self._pace = pace or Pacing()
        self._spoke: dict[str, list[float]] = {name: [] for name in names}

    def next(self) -> str:
        """The next speaker; its message is sent at `time`."""
        pace, chance = self._pace, self._chance
        while True:
            name = chance.pick(self._names)
            spoke = self._spoke[name]
            speaks = not self._rests(spoke) and chance.happens(pace.speaks)
            if speaks:
                spoke.append(self.time)
            self.time += chance.between(pace.least, pace.most)
            if speaks:
                self.time += pace.latency
                return name

    def _rests(self, spoke: list[float]) -> bool:
        pace = self._pace
        return len(spoke) >= pace.messages and self.time - spoke[-pace.messages] <= pace.window
