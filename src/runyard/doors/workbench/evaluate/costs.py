"""What a cell's models have cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def cost_of(usage: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Dollars, from tokens by model; None without a model, or if the price of one is unknown."""
    if not usage:
        return None
    from runyard.llm import Prices

    prices, total = Prices.load(), 0.0
    for model, tokens in usage.items():
        price = prices.price(model)
        if price is None:
            return None
        cached = int((tokens.get("input_token_details") or {}).get("cache_read", 0))
        asked, made = (int(tokens.get(key, 0)) for key in ("input_tokens", "output_tokens"))
        total += price.of(asked, min(cached, asked), made)
    return total
