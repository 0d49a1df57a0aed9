"""Values for display and export, as plain JSON or as text; not meant to be read back.

Any object is accepted, as a pickled value may be of any class.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runyard.spec.codec import DEEPEST, WIDEST
from runyard.spec.records import fields_of


def jsonable(value: Any) -> Any:
    """The value as plain JSON; a value that contains itself is cut with "…"."""
    return _json(value, ())


def _json(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return json_text(value)
    if isinstance(value, int | float):
        return json_number(value, WIDEST)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if len(above) > DEEPEST or id(value) in above:
        return "…"
    return _json_of_many(value, (*above, id(value)))


def _json_of_many(value: Any, above: tuple[int, ...]) -> Any:
    if type(value).__module__ == "numpy":
        return _json_of_numpy(value, above)
    inner = value if isinstance(value, dict) else fields_of(value)
    if inner is not None:
        return {k: _json(v, above) for k, v in named(inner)}
    if isinstance(value, list | tuple):
        return [_json(v, above) for v in value]
    return shown(value)


def _json_of_numpy(value: Any, above: tuple[int, ...]) -> Any:
    from runyard.spec.arrays import is_mostly_form

    if not hasattr(value, "tolist") or is_mostly_form(value.shape):
        return shown(value)
    plain = value.tolist()  # the value itself, if Python has no such type
    return shown(value) if type(plain) is type(value) else _json(plain, above)


def named(mapping: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
    """The items of a mapping with distinct text keys, also for 1 and "1"."""
    if all(type(key) is str and key.isascii() for key in mapping):
        return mapping.items()
    names = [_written(key, str) for key in mapping]
    if len(set(names)) < len(names):
        names = [shown(key) for key in mapping]
    return zip(names, mapping.values(), strict=True)


def shown(value: Any) -> str:
    """The `repr` of the value, or its class if that fails."""
    return _written(value, repr)


def _written(value: Any, write: Callable[[Any], str]) -> str:
    try:
        return json_text(write(value))
    except Exception:
        return f"<{type(value).__qualname__}>"


def json_number(value: float, widest: int) -> int | float | str:
    """The number; its name if it is not finite, and in hex if it has more than `widest` bits."""
    if isinstance(value, int):
        return int(value) if value.bit_length() <= widest else hex(value)
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_text(value: str) -> str:
    """The text, with escapes for characters that UTF-8 can't encode."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
