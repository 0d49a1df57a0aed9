"""The fields of a value by dotted path: which of them are numbers, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runyard.spec.codec import DEEPEST
from runyard.spec.records import fields_of
from runyard.spec.shown import named

WHOLE = "value"
"""The path of a value that is a single number."""


def parts(value: Any, path: str = "", above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every field of a value with its path; records and mappings are entered unless empty.

    Where a value contains itself, it is a field as a whole.
    """
    if isinstance(value, bool | int | float | str) or value is None:
        yield path or WHOLE, value
        return
    inner = value if isinstance(value, dict) else fields_of(value)
    if inner and len(above) < DEEPEST and id(value) not in above:
        for key, part in named(inner):
            yield from parts(part, f"{path}.{key}" if path else key, (*above, id(value)))
    elif inner is None and type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        yield path or WHOLE, value.item()
    else:
        yield path or WHOLE, value


def leaves(value: Any) -> Iterator[tuple[str, float]]:
    """Every number in a value, with its path; booleans, which count as 0 and 1, stay booleans."""
    for path, part in parts(value):
        if isinstance(part, bool | int | float):
            yield path, part if isinstance(part, bool) else as_float(part)


def as_float(number: float) -> float:
    """A number as a double; infinite if it is too large."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
