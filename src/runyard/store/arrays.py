"""Columns as arrays in PostgreSQL's binary format: a header, then each value with its length."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

_HEADER = struct.Struct("!iiIii")  # dimensions, has nulls, type, length, first index
_NUMBERS = {"int4": (23, "i", 4), "int8": (20, "q", 8), "float8": (701, "d", 8)}
_STRINGS = {"bytea": 17, "text": 25}
_NULL = struct.pack("!i", -1)


class Packed(bytes):
    """An array to bind; the statement states its type: `%b::int8[]`."""

    __slots__ = ()


def packed(kind: str, values: Sequence[Any]) -> Packed:
    """Pack one column of `int4`, `int8`, `float8`, `bytea` or `text`; None stands for null."""
    count = len(values)
    if kind in _STRINGS:
        lengths, number = struct.Struct("!i").pack, _STRINGS[kind]
        data = values if kind == "bytea" else [v if v is None else v.encode() for v in values]
        parts = [_NULL if v is None else lengths(len(v)) + v for v in data]
        return Packed(_HEADER.pack(1, 1, number, count, 1) + b"".join(parts))
    number, letter, width = _NUMBERS[kind]
    if None in values:
        pack = struct.Struct(f"!i{letter}").pack
        parts = [_NULL if v is None else pack(width, v) for v in values]
        return Packed(_HEADER.pack(1, 1, number, count, 1) + b"".join(parts))
    body = struct.pack(f"!{f'i{letter}' * count}", *chain.from_iterable((width, v) for v in values))
    return Packed(_HEADER.pack(1, 0, number, count, 1) + body)
