"""JSON-safe copies of values of any type, so that every event can be recorded.

Unlike `spec/shown`, bytes stay legible, so that secrets in them are redacted, and a value that
contains itself ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any

from runyard.spec.shown import json_number, json_text

_DEEPEST = 40
_LONGEST_REPR = 500
_WIDEST_INT = 4096  # bits


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
        return str(json_text(value))
    if isinstance(value, int | float):
        return json_number(value, _WIDEST_INT)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, PurePath | date | time):
        return json_text(str(value))
    if len(above) >= _DEEPEST or id(value) in above:
        return "..."
    return _plain_container(value, (*above, id(value)))


def _plain_container(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        return {str(_plain(key, ())): _plain(item, above) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, above) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, above) for item in value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name, None), above) for name in names}
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return _plain(value.item(), above)
    try:
        text = json_text(repr(value))
    except Exception:
        return f"<unprintable {type(value).__qualname__}>"
    return text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 3] + "..."
