"""What calls have used: tokens, dollars, time."""

from __future__ import annotations

from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one call, or all calls of a cell, have used; add them with `+`."""

    calls: int = 0  # requests that were answered, whatever the answer
    input_tokens: int = 0  # including those from the provider's cache
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0  # None: the price or the tokens of some call are unknown
    latency: float = 0.0  # seconds from sending requests to the ends of their answers
    waited: float = 0.0  # seconds of waiting for the rate limit and between retries
    unpriced: tuple[str, ...] = ()  # models whose cost is unknown

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    def metrics(self) -> dict[str, Any]:
        """What a task returns as metrics, for budgets and summaries.

        Times are left out: they differ between runs, and a task's value is part of the digest.
        """
        return {
            "usd": self.usd,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
        }

    def __add__(self, other: Usage) -> Usage:
        unknown = self.usd is None or other.usd is None
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=None if unknown else (self.usd or 0.0) + (other.usd or 0.0),
            latency=self.latency + other.latency,
            waited=self.waited + other.waited,
            unpriced=tuple(dict.fromkeys(self.unpriced + other.unpriced)),
        )
