"""Numpy scalars and arrays as plain data: type, shape and bytes, equal for equal arrays.

A type is rebuilt from its description alone; what can't be described (objects, extended precision,
types of other packages, subclasses of arrays) is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_LEAVES = frozenset(
    {
        np.bool_, np.bytes_, np.str_, np.void, np.datetime64, np.timedelta64,
        *(np.dtype(code).type for code in "bBhHiIlLqQefdFD"),
    }
)  # fmt: skip
_TEXTS: dict[Any, tuple[type, Any]] = {"U": (str, np.str_), "S": (bytes, np.bytes_)}
"""Scalars kept as Python objects, since an array would strip their trailing zeros."""

_MOST_EMPTY = 1 << 20
"""The most rows of an array without elements, which as a list takes memory nevertheless."""

Array = np.ndarray[Any, Any]


class Unfit(ValueError):
    """An array or scalar that can't be recorded; says why."""


def to_data(value: Any) -> list[Any]:
    """An array as its type, shape and bytes; a scalar as its type and content."""
    kind = type(value)
    if kind is np.str_:
        return ["U", str.__str__(value)]
    if kind is np.bytes_:
        return ["S", b"".join([value])]
    is_scalar = isinstance(value, np.generic)
    if kind is not np.ndarray and not (is_scalar and kind in _LEAVES):
        raise Unfit("")
    array = np.asarray(value)
    described = _described(array.dtype)
    _check_shape(array.shape)
    data = _canonical(array).tobytes()
    return [described, data] if is_scalar else [described, list(array.shape), data]


def from_data(content: list[Any], *, scalar: bool) -> Any:
    """The inverse of `to_data`; ValueError for other data."""
    described, *shape, data = content
    if scalar and type(described) is str and described in _TEXTS:
        held, kind = _TEXTS[described]
        if type(data) is not held:
            raise Unfit("not a text")
        return kind(data)
    sides: list[Any] = [] if scalar else list(*shape)
    if not all(type(side) is int and side >= 0 for side in sides):
        raise Unfit("not a shape")
    _check_shape(sides)
    found = np.frombuffer(data, dtype=_dtype(described)).reshape(sides).copy()
    _check_text(found)
    return found[()] if scalar else found


def _described(dtype: np.dtype[Any]) -> Any:
    """A type as text, a dict (for fields) or a tuple (for subarrays)."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return _described(base), list(shape)
    if dtype.names is None:
        if dtype.type not in _LEAVES or not dtype.itemsize:
            raise Unfit(f"its type {dtype} is not portable")
        return dtype.str
    if dtype.type is not np.void or not dtype.names:
        raise Unfit(f"its type {dtype} is not a plain structure")
    fields = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
    if any(len(field) > 2 for field in fields):
        raise Unfit("its fields have titles")
    return {"names": list(dtype.names), "formats": [_described(field[0]) for field in fields]}


def _dtype(described: Any) -> np.dtype[Any]:
    """The inverse of `_described`: without padding between fields."""
    found: np.dtype[Any]
    if isinstance(described, str):
        found = np.dtype(described)
    elif isinstance(described, dict):
        formats = [_dtype(each) for each in described["formats"]]
        found = np.dtype({"names": described["names"], "formats": formats})
    else:
        base, shape = described
        found = np.dtype((_dtype(base), tuple(shape)))
    if _described(found) != described:
        raise Unfit("not a type")
    return found


def _canonical(array: Array) -> Array:
    """The array without padding between fields, and with one form of NaN and of True."""
    if array.dtype.names is not None:
        packed = np.empty(array.shape, _dtype(_described(array.dtype)))
        for name in array.dtype.names:
            packed[name] = _canonical(array[name])
        return packed
    kind = array.dtype.kind
    if kind == "U":
        _check_text(array)
    if kind == "b":
        truth: Array = array.view(np.uint8) != 0
        return truth
    if kind not in "fc" or not np.isnan(array).any():
        return array
    parts = np.array(array, order="C", ndmin=1).view(array.real.dtype)
    parts[np.isnan(parts)] = np.nan
    return parts.view(array.dtype).reshape(array.shape)


def _check_text(array: Array) -> None:
    for name in array.dtype.names or ():
        _check_text(array[name])
    if array.dtype.kind != "U" or not array.size:
        return
    number = np.dtype("u4").newbyteorder(array.dtype.byteorder)
    codes = np.array(array, order="C", ndmin=1).view(number)
    if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
        raise Unfit("its text is not valid Unicode")


def _check_shape(shape: Any) -> None:
    if is_mostly_form(shape):
        raise Unfit(f"it has no elements and the shape {tuple(shape)}")


def is_mostly_form(shape: Any) -> bool:
    """Whether an array without elements would be a long list of empty lists."""
    return 0 in shape and math.prod(side or 1 for side in shape) > _MOST_EMPTY
