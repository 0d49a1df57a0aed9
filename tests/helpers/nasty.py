"""Values that are hard to record: what each is, and whether it is kept or refused."""

from __future__ import annotations

import decimal
import fractions
import math
from typing import Any

import numpy as np
from shapes import (
    Checked,
    Colour,
    Computed,
    Counted,
    Derived,
    Empty,
    Finalised,
    Frozen,
    Hashed,
    Holder,
    Longer,
    MadeItself,
    Pair,
    Point,
    Tagged,
    Trouble,
    Unset,
    Untracked,
    Word,
)

from runyard.spec.codec import DEEPEST
from runyard.spec.records import Record

NAN = math.nan
_odd = np.array([[complex(NAN, 1), 2], [3, complex(4, NAN)]])
_padded = np.dtype({"names": ["b", "a"], "formats": ["U2", ">c8"], "offsets": [16, 0]})


def nested(levels: int, *, around: Any = 1) -> Any:
    """A value inside so many of everything that holds values."""
    shells: list[Any] = [
        lambda v: [v],
        lambda v: {"x": v},
        lambda v: (v,),
        lambda v: {1: v},
        lambda v: Point(v, 0.0),
        lambda v: Pair(v, 0),
        lambda v: Tagged(v),
    ]
    for level in range(levels):
        around = shells[level % len(shells)](around)
    return around


KEPT: dict[str, Any] = {
    "nothing": None,
    "widest integer": 2**14_284 - 1,
    "widest negative integer": -(2**14_284) + 1,
    "signs of zero": [-0.0, 0.0, complex(-0.0, -0.0)],
    "bytearray": bytearray(b"ab"),
    "own __new__": MadeItself(3),
    "derived dataclass": Derived(1.0, 2.0, name="x"),
    "empty dataclass": [Empty(), Counted(1)],
    "subclass of a named tuple": Longer(1, 2),
    "structs with options": [Tagged(1), Untracked(x=NAN)],
    "keys alike in text": {1: "a", "1": "b", b"1": "c", (1,): "d", "(1,)": "e"},
    "keys alike in paths": {"a.b": 1, "a": {"b": 2.5}, "": {"": 3}},
    "key NaN": {NAN: 1, -0.0: 2, (NAN, NAN): 3},
    "numpy keys": {np.int64(1): 1, np.str_("a"): 2, np.datetime64("2024-01-01"): 3},
    "text of controls": "\0\r\n\x1b[2J\x85\u2028=1+1<script>&",
    "deep": nested(DEEPEST - 8),
    "complex NaN in Fortran's order": np.asfortranarray(_odd),
    "complex NaN from a view": np.vstack([_odd, _odd])[::2, ::-1],
    "NaN in half and big-endian": [np.array([NAN, 1], ">f2"), np.array([NAN], ">c16")],
    "no dimension": [np.array(NAN), np.array(complex(1, NAN)), np.array("a"), np.array(b"a\0")],
    "no element": [np.zeros((0, 3)), np.zeros((2, 0), ">i2"), np.zeros(0, _padded)],
    "text scalars": [np.str_("a\0"), np.bytes_(b"a\0"), np.str_(""), np.bytes_(b"")],
    "text arrays": [np.array(["é\0b", ""]), np.array(["é"], ">U3"), np.array([b"a\0"])],
    "times": [
        np.datetime64("NaT"), np.timedelta64("NaT", "D"), np.datetime64("2024", "25s"),
        np.array([2**62, -(2**62)], "M8[Y]"), np.array([2**62, 1], "m8[fs]"),
    ],
    "untyped bytes": [np.void(b"ab\0"), np.array([b"abc\0"], "V4")],
    "structured": np.array([("ab", complex(NAN, 2))], _padded),
    "structured in structures": np.zeros(2, [("in", [("u", "U2"), ("m", "m8[s]", (2,))], (2, 2))]),
    "odd booleans": np.array([0, 1, 2, 255], "u1").view(bool),
    "read only": np.broadcast_to(np.arange(3), (2, 3)),
    "unknown record": Record("nowhere:Thing", {"x": [1], "type_name": "y"}),
}  # fmt: skip

_itself: list[Any] = []
_itself.append({"x": _itself})
_computed = Computed(1)
_finalised = Finalised("kept")

REFUSED: dict[str, Any] = {
    "record as a key": {Pair(1, 2): 3},
    "frozen record as a key": {(1, Frozen("a")): 3},
    "key with a hash of its own": {Hashed(1): 1},
    "keys recorded as the same": {float("nan"): 1, float("inf") - float("inf"): 2},
    "integer without digits": 2**14_284,
    "integer key without digits": {10**5000: [1, {10**5000: 2}]},
    "matrix": np.zeros((1, 2)).view(np.matrix),
    "masked array": np.ma.array([1, 2], mask=[0, 1]),
    "record array": np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "record scalar": np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])[0],
    "objects in a structure": np.zeros(2, [("a", "f4"), ("b", "O")]),
    "extended precision": np.longdouble(1),
    "extended precision in a structure": np.zeros(1, [("a", "f4"), ("b", "g", (2,))]),
    "elements without size": np.zeros(2, "V0"),
    "many rows without elements": np.zeros((1 << 40, 0)),
    "fields with titles": np.zeros(2, [(("title", "a"), "f4")]),
    "text of any length": np.array(["a"], np.dtypes.StringDType()),
    "surrogates in arrays": np.array(["a", "\ud800"]),
    "surrogates in a structure": np.array([("\udfff",)], [("a", ">U1")]),
    "surrogates in a scalar": [np.str_("\ud800")],
    "surrogates in a key": {(1, "\ud800"): 1},
    "surrogates under a number": {1.0: "\ud800"},
    "surrogates in a record": Frozen("\ud800"),
    "dataclass that is a dict": Holder(1),
    "dataclass that is an error": Trouble(1),
    "field without a value": Unset(1),
    "computed field": _computed,
    "class with an end of its own": _finalised,
    "struct with a check": Checked(1),
    "record with other keys": Record("a:b", {1: 2}),  # type: ignore[dict-item]
    "record without a name": Record(None, {"x": 2}),  # type: ignore[arg-type]
    "memoryview": memoryview(b"ab"),
    "enums": [Colour.RED, Word.HELLO],
    "numbers of other classes": [decimal.Decimal(1), fractions.Fraction(1, 2)],
    "too deep": nested(DEEPEST + 1),
    "contains itself": _itself,
}
