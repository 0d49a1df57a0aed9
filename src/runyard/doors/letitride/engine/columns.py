"""Recorded sessions as columns: one row for each session and seat, money in cents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.cards.tables import CATEGORIES

ColumnArrays = dict[str, NDArray[Any]]

NAMES = (
    "hands_played",
    "stop_reason",
    "final_bankroll",
    "total_wagered",
    "total_bonus_wagered",
    "main_profit",
    "bonus_profit",
    "peak_bankroll",
    "max_drawdown",
)
"""Columns of whole numbers; `stop_reason` is an index into `STOP_REASONS`."""

PERCENT, COUNTS = "max_drawdown_pct", "hand_counts"

_SIZES = (np.uint8, np.int16, np.int32, np.int64)


def empty(rows: int) -> ColumnArrays:
    """Zeroed columns."""
    found: ColumnArrays = {name: np.zeros(rows, np.int64) for name in NAMES}
    found[PERCENT] = np.zeros(rows, np.float64)
    found[COUNTS] = np.zeros((rows, CATEGORIES), np.int32)
    return found


def packed(columns: ColumnArrays) -> ColumnArrays:
    """The same columns in the smallest integer types that fit."""
    return {
        name: values if name == PERCENT else _narrow(values) for name, values in columns.items()
    }


def joined(parts: Iterable[Mapping[str, NDArray[Any]]]) -> ColumnArrays:
    """Concatenate columns, in types wide enough to sum."""
    found = list(parts)
    names = found[0].keys() if found else ()
    return {name: unpacked(np.concatenate([part[name] for part in found])) for name in names}


def unpacked(values: NDArray[Any]) -> NDArray[Any]:
    """A column in a type wide enough to sum."""
    return values if values.dtype.kind == "f" else values.astype(np.int64)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kind = next(k for k in _SIZES if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    return values.astype(kind)
