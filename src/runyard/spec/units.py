"""Durations and sizes, such as `90s` and `512MB`."""

from __future__ import annotations

import math
import re

from runyard.errors import BadSpec

_SECONDS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "b": 1} | {
    unit: base**power
    for power, letter in enumerate("kmgt", start=1)
    for unit, base in ((letter, 1024), (f"{letter}b", 1000), (f"{letter}ib", 1024))
}
MOST_BYTES = 10**18
"""The largest size; beyond 2**63 the system can't set it as a limit."""

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Z]*)\s*")


def seconds(value: str | float) -> float:
    """Read `90`, `"90s"`, `"1.5m"`, `"2h"` as seconds."""
    return _quantity(value, _SECONDS, "duration", "500ms, 30s, 5m, 2h")


def size(value: str | float) -> int:
    """Read `1000`, `"512MB"`, `"2GiB"`, `"2G"` as bytes."""
    found = int(_quantity(value, _BYTES, "size", "1000000, 512MB, 2GiB"))
    if found < 1:
        raise BadSpec(f"{value!r} is less than one byte", hint="use at least one byte")
    if found > MOST_BYTES:
        raise BadSpec(f"{value!r} is more than any machine has", hint="use at most 1,000,000 TB")
    return found


def _quantity(value: str | float, units: dict[str, float], what: str, examples: str) -> float:
    hint = f"write one above zero, such as {examples}"
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        if match is None or match[2].lower() not in units:
            raise BadSpec(f"{value!r} is not a {what}", hint=hint)
        number = float(match[1]) * units[match[2].lower()]
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise BadSpec(f"{value!r} is not a {what}", hint=hint)
    else:
        try:
            number = value = float(value)
        except OverflowError:
            number = value = math.inf
    if not math.isfinite(number) or number <= 0:
        raise BadSpec(f"{value!r} is not a valid {what}", hint=hint)
    return number
