"""How fast requests may be sent: a rate that adapts to refusals, without I/O.

There is no limit until an endpoint refuses a request (429, 529). Then requests are spaced evenly:
each round of refusals cuts the rate, and each answer raises it a little (AIMD). A `Retry-After`
pauses all senders.
"""

from __future__ import annotations

import math

import msgspec

CUT = 0.75
"""What a refusal leaves of the rate."""

GROWTH = 2.0
"""Requests per second that a second of answers adds, up to `GROWTH / SHARE`; an answer adds half
of the rate at most."""

SHARE = 0.05
"""The same for higher rates, as a share of the rate."""

SLOWEST = 0.1
"""Requests per second that remain, however often the endpoint refuses."""

MEMORY = 2.0
"""Seconds over which requests are counted."""

SHORTEST = 0.25
"""Seconds that are the least to tell a rate from."""

LONGEST_PAUSE = 600.0
"""A time further ahead comes from another clock and is ignored."""


class Pace(msgspec.Struct):
    """How fast requests to one endpoint and model may be sent; times in seconds since the epoch."""

    rate: float | None = None  # requests per second; None: no limit yet
    next: float = 0.0  # when the next request may be sent
    until: float = 0.0  # nothing may be sent before
    cut: float = 0.0  # when the rate was last cut
    sends: float = 0.0  # recent requests, older ones count less
    counted: float = 0.0  # when they were last counted
    began: float = 0.0  # when the first of them was sent

    def reserve(self, now: float) -> float:
        """The time at which one more request may be sent; it is taken."""
        start = max(now, self._ahead(self.until, now))
        if self.rate is not None:
            start = max(start, self._ahead(self.next, now))
            self.next = start + 1 / self.rate
        return start

    def may_send(self, now: float, reserved: float) -> bool:
        """Whether a reservation made at `reserved` still holds; if so, the request is counted."""
        if self._ahead(self.until, now) > now or reserved < self.cut <= now:
            return False
        self.sends = self._sends(now) + 1
        self.counted = now
        if self.sends < 1.01 or self.began > now:
            self.began = now
        return True

    def accepted(self, now: float) -> None:
        """A request was answered. A rate that isn't used doesn't grow."""
        if self.rate is not None and self.rate < 2 * self.sending(now):
            self.rate += max(min(GROWTH / self.rate, self.rate / 2), SHARE)

    def refused(self, now: float, sent: float, retry_after: float | None) -> None:
        """A request that was sent at `sent` was refused."""
        if retry_after is not None:
            self.until = max(self.until, now + min(retry_after, LONGEST_PAUSE))
        if sent < self.cut <= now:
            return  # one of those that were under way when the rate was cut
        rate = self.sending(now) if self.rate is None else self.rate
        self.rate = max(CUT * rate, SLOWEST)
        self.cut = now
        self.next = now + 1 / self.rate  # who had reserved a time reserves again

    def sending(self, now: float) -> float:
        """Requests per second of late."""
        span = max(now - self.began, SHORTEST)
        return self._sends(now) / (MEMORY * -math.expm1(-span / MEMORY))

    def _sends(self, now: float) -> float:
        return self.sends * math.exp(min(0.0, self.counted - now) / MEMORY)

    @staticmethod
    def _ahead(time: float, now: float) -> float:
        return time if time - now <= LONGEST_PAUSE else now
