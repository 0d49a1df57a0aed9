"""What calls have used: tokens, dollars, time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from runyard.llm.prices import Prices
from runyard.llm.request import Call, data_of


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one call, or all calls of a cell, have used; add them with `+`."""

    calls: int = 0  # that a model has answered
    input_tokens: int = 0  # including those from the provider's cache
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0  # None: the price or the tokens of some call are unknown
    latency: float = 0.0  # seconds from sending requests to the ends of their answers
    waited: float = 0.0  # seconds of waiting for the rate limit, and of attempts that failed
    unpriced: tuple[str, ...] = ()  # models whose cost is unknown

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def cost(self) -> str:
        """The dollars as text; if they are unknown, for which model."""
        if self.usd is not None:
            return f"${self.usd:.4g}"
        return f"unknown (no price or no token counts for {', '.join(self.unpriced)})"

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


def used(call: Call, answer: dict[str, Any], seconds: float, prices: Prices) -> Usage:
    """What one call has used, by its answer as a tape has it.

    An attempt that failed or broke off counts as a wait; what it cost isn't known, usually nothing.
    """
    if call.model is None:
        return Usage()
    if answer.get("status", 599) >= 400 or "error" in answer or "text" in answer:
        return Usage(waited=seconds)
    counts, price = _counts(answer), prices.price(call.model)
    if counts is None and price is not None and price.is_free:
        counts = 0, 0, 0  # moderation endpoints don't tell
    asked, cached, made = counts or (0, 0, 0)
    is_known = counts is not None and price is not None
    return Usage(
        calls=1,
        input_tokens=asked,
        cached_tokens=cached,
        output_tokens=made,
        usd=None if price is None or counts is None else price.of(*counts),
        latency=seconds,
        unpriced=() if is_known else (call.model,),
    )


def _counts(answer: dict[str, Any]) -> tuple[int, int, int] | None:
    """Input, cached and output tokens; None if the answer doesn't tell."""
    found = None
    for part in _documents(answer):
        if isinstance(part, dict):
            inner = part.get("response")  # the events of the Responses API
            usage = part.get("usage") or (inner.get("usage") if isinstance(inner, dict) else None)
            found = usage if isinstance(usage, dict) else found
    if found is None:
        return None
    details = found.get("prompt_tokens_details") or found.get("input_tokens_details") or {}
    asked = _count(found, "prompt_tokens", "input_tokens")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else 0
    return asked, min(cached, asked), _count(found, "completion_tokens", "output_tokens")


def _count(table: dict[str, Any], *names: str) -> int:
    """The first of these that is a count."""
    found = (table.get(name) for name in names)
    return next((n for n in found if isinstance(n, int) and n >= 0), 0)


def _documents(answer: dict[str, Any]) -> Iterator[Any]:
    """The JSON documents of an answer: one, or those of a stream."""
    if "json" in answer:
        yield answer["json"]
    for text in data_of("".join(answer.get("events", ()))):
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(text)
