"""The fields of a value by dotted path: which of them are numbers, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runyard.spec.codec import fields_of

WHOLE = "value"
"""The path of a value that is one number by itself."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a value, with its path; booleans stay booleans, which count as 0 and 1."""
    if isinstance(value, bool):
        yield path or WHOLE, value
    elif isinstance(value, int | float):
        try:
            yield path or WHOLE, float(value)
        except OverflowError:
            yield path or WHOLE, float("inf") if value > 0 else float("-inf")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    elif (fields := fields_of(value)) is not None:
        yield from leaves(fields, path)
    elif type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        yield from leaves(value.item(), path)
