"""JSON-safe copies of values of any type, so that every event can be recorded."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any

_DEEPEST = 40
_LONGEST_REPR = 500
_WIDEST_INT = 4096  # bits; Python refuses to print integers of about 14,000 bits in decimal


def json_safe(value: Any) -> Any:
    """Copy `value` into dicts, lists, strings, finite numbers, booleans and None only.

    NaN and infinities become their names, bytes become text, dataclasses and mappings become
    dicts, numpy scalars numbers; anything else becomes its repr, at most 500 characters of it.
    """
    return _plain(value, ())


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, Enum):
        return _plain(value.value, above)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, (PurePath, date, time)):
        return _text(str(value))
    if len(above) >= _DEEPEST or id(value) in above:
        return "..."
    return _plain_container(value, (*above, id(value)))


def _plain_container(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, (dict, Mapping)):
        return {_key(key): _plain(item, above) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, above) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, above) for item in value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name, None), above)
            for field in dataclasses.fields(value)
        }
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return _plain(value.item(), above)
    return _repr(value)


def _key(key: Any) -> str:
    if type(key) is str:
        return _text(key)
    plain = _plain(key, ())
    return plain if isinstance(plain, str) else str(plain)


def _text(value: str) -> str:
    if value.isascii():
        return value if type(value) is str else str(value)
    return value.encode("utf-8", "backslashreplace").decode()


def _number(value: int | float) -> int | float | str:
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _WIDEST_INT else hex(value)
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _repr(value: Any) -> str:
    try:
        text = _text(repr(value))
    except Exception:
        return f"<unprintable {type(value).__qualname__}>"
    return text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 3] + "..."
