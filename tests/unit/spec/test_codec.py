from __future__ import annotations

import collections
import dataclasses
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shapes import (
    Colour,
    Counted,
    Empty,
    Frozen,
    FrozenWalk,
    Loud,
    Pair,
    Point,
    Prepared,
    Walk,
    Word,
)

from runyard.errors import NotEncodable, UsageError
from runyard.spec.codec import (
    checksum,
    decode,
    decode_as,
    dump_function,
    encode,
    encode_as,
    load_function,
)
from runyard.spec.records import Record
from runyard.spec.shown import jsonable

texts = st.text(st.characters(codec="utf-8"), max_size=20)
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.complex_numbers(allow_nan=False),
    texts,
    st.binary(max_size=20),
)
keys = st.one_of(
    texts, st.integers(), st.booleans(), st.none(), st.binary(max_size=5), st.tuples(st.integers())
)
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(texts, inner, max_size=5),
        st.dictionaries(keys, inner, max_size=5),
        st.builds(Point, inner, inner),
        st.builds(Frozen, texts, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    """Equal in type and content, NaN equal to itself, the sign of zero kept."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, dict):
        if {(type(k), k) for k in left} != {(type(k), k) for k in right}:
            return False
        return all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if dataclasses.is_dataclass(left):
        fields = [f.name for f in dataclasses.fields(left)]
        return all(same(getattr(left, f), getattr(right, f)) for f in fields)
    return bool(left == right)


def reordered(value: Any) -> Any:
    """An equal value whose dicts were filled the other way round."""
    if type(value) is dict:
        return {k: reordered(v) for k, v in reversed(value.items())}
    if type(value) in (list, tuple):
        return type(value)(map(reordered, value))
    return value


@given(values)
def test_a_value_reads_back_as_what_it_was(value: Any) -> None:
    assert same(decode(encode(value)), value)


@given(values)
def test_equal_values_have_equal_bytes_whatever_the_order_of_their_dicts(value: Any) -> None:
    assert encode(reordered(value)) == encode(value)


@given(values)
def test_what_was_read_back_is_encoded_to_the_same_bytes(value: Any) -> None:
    data = encode(value)
    assert encode(decode(data)) == data


@given(values, values)
def test_different_values_have_different_bytes(left: Any, right: Any) -> None:
    assert (encode(left) == encode(right)) == same(left, right)


def test_every_nan_is_the_same_nan() -> None:
    other = float.fromhex("nan") * -1
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    for nan in (other, *bits.tolist()):
        assert encode(nan) == encode(math.nan)
        assert encode([nan]) == encode([math.nan])
        assert encode(complex(nan, 0)) == encode(complex(math.nan, 0))


def test_infinities_and_negative_zero_are_kept() -> None:
    assert decode(encode([math.inf, -math.inf])) == [math.inf, -math.inf]
    assert math.copysign(1, decode(encode(-0.0))) == -1


def test_a_bool_an_int_and_a_float_stay_apart() -> None:
    assert len({encode(True), encode(1), encode(1.0), encode("1"), encode(b"1")}) == 5
    assert [type(v) for v in decode(encode([True, 1, 1.0]))] == [bool, int, float]


def test_a_tuple_is_not_a_list() -> None:
    assert decode(encode((1, [2, (3,)]))) == (1, [2, (3,)])
    assert encode((1,)) != encode([1])


@pytest.mark.parametrize("power", [62, 63, 64, 65, 127, 128, 1000])
def test_integers_of_any_size_are_kept(power: int) -> None:
    for value in (2**power - 1, 2**power, 2**power + 1):
        assert decode(encode(value)) == value
        assert decode(encode(-value)) == -value


def test_keys_that_are_not_text_are_kept() -> None:
    value = {1: "a", "1": "b", (1, 2): "c", None: "d", b"x": "e", 1.5: "f", True: "g"}
    assert decode(encode(value)) == value


SCALARS = [
    np.float64(1.5),
    np.float32(1.5),
    np.float16(1.5),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.bool_(True),
    np.complex128(1 + 2j),
    np.str_("héllo"),
    np.bytes_(b"ab"),
    np.datetime64("2024-01-02T03:04:05", "ns"),
    np.timedelta64(5, "D"),
]


@pytest.mark.parametrize("value", SCALARS, ids=lambda v: v.dtype.str)
def test_a_numpy_scalar_keeps_its_type(value: Any) -> None:
    back = decode(encode(value))
    assert type(back) is type(value)
    assert back.dtype == value.dtype
    assert back == value


@pytest.mark.parametrize("value", [np.str_(""), np.bytes_(b"")], ids=["text", "bytes"])
def test_an_empty_numpy_text_is_kept(value: Any) -> None:
    assert decode(encode(value)) == value


def test_numpy_nan_and_nat_are_kept() -> None:
    assert np.isnan(decode(encode(np.float64("nan"))))
    assert np.isnat(decode(encode(np.datetime64("NaT"))))


ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.arange(12.0).reshape(3, 4)[::2, ::-1],
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([1.0, math.nan, math.inf]),
    np.array(5),
    np.zeros((0, 3)),
    np.zeros(0, dtype=np.int32),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bc"]),
    np.array([1, 2], dtype=">i4"),
    np.array(["2024-01-01", "NaT"], dtype="M8[D]"),
    np.array([1 + 2j]),
]


@pytest.mark.parametrize("value", ARRAYS, ids=lambda v: f"{v.dtype.str}-{v.shape}")
def test_a_numpy_array_keeps_its_type_shape_and_content(value: np.ndarray[Any, Any]) -> None:
    back = decode(encode({"x": [value]}))["x"][0]
    assert back.dtype == value.dtype
    assert back.shape == value.shape
    assert back.tobytes() == value.tobytes()
    assert back.flags.writeable


STRUCTURED = [
    np.dtype([("x", "<f8"), ("n", "<i4")]),
    np.dtype([("x", "<f4", (2, 2)), ("inner", [("a", "u1"), ("b", "U3")])]),
    np.dtype([("a", "u1"), ("b", "<f8")], align=True),
]


@pytest.mark.parametrize("dtype", STRUCTURED, ids=["flat", "nested", "aligned"])
def test_a_structured_array_keeps_its_fields(dtype: np.dtype[Any]) -> None:
    value = np.zeros(3, dtype=dtype)
    value[dtype.names[0]][1] = 7
    back = decode(encode(value))
    assert back.dtype.names == dtype.names
    assert np.array_equal(back, value)
    scalar = decode(encode(value[1]))
    assert scalar == value[1]


def test_the_memory_order_of_an_array_plays_no_part() -> None:
    value = np.arange(6.0).reshape(2, 3)
    assert encode(np.asfortranarray(value)) == encode(value)
    assert encode(np.arange(12.0)[::2]) == encode(np.arange(0.0, 12.0, 2.0))


def test_every_nan_in_an_array_is_the_same_nan() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000], dtype=np.uint64)
    one, other = bits.view(np.float64)
    assert encode(np.array([other])) == encode(np.array([one]))
    assert encode(other) == encode(one)


RECORDS = [
    Point(1.5, math.inf),
    Frozen("a", [Point(0.0, 1.0)]),
    Walk(3, [0.5]),
    FrozenWalk(3),
    Pair(1, (2, 3)),
    Counted(4),
    Empty(),
]


@pytest.mark.parametrize("value", RECORDS, ids=lambda v: type(v).__name__)
def test_a_record_reads_back_as_its_own_class(value: Any) -> None:
    back = decode(encode([value]))[0]
    assert type(back) is type(value)
    assert back == value


def test_a_dataclass_with_values_for_its_start_only_is_kept_or_refused_clearly() -> None:
    value = Prepared(2, scale=10)
    try:
        data = encode(value)
    except NotEncodable:
        return
    assert decode(data) == value


def test_a_record_of_a_class_that_is_not_loaded_gives_its_fields() -> None:
    data = encode([Point(1.0, 2.0), Walk(3, [0.5]), Pair(1, 2)])
    script = f"""
import sys
from runyard.spec.codec import decode, encode
from runyard.spec.records import Record
data = bytes.fromhex({data.hex()!r})
point, walk, pair = decode(data)
assert "shapes" not in sys.modules
assert all(type(each) is Record for each in (point, walk, pair))
assert (point.x, point["y"], walk.path, pair.right) == (1.0, 2.0, [0.5], 2)
assert point.type_name == "shapes:Point" and repr(point) == "Point(x=1.0, y=2.0)"
assert not hasattr(point, "z")
assert encode([point, walk, pair]) == data
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_decoding_imports_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "trapmodule.py"
    trap.write_text("raise SystemExit('imported')")
    names = ["trapmodule:Thing", "runyard:Yard", "runyard:Result", "numpy:f2py.Thing"]
    records = [encode(Record(name, {"x": 1})).hex() for name in names]
    script = f"""
import sys
from runyard.spec.codec import decode
from runyard.spec.records import Record
before = set(sys.modules)
for data in {records!r}:
    assert type(decode(bytes.fromhex(data))) is Record
assert set(sys.modules) == before, set(sys.modules) - before
"""
    environment = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_decoding_calls_no_constructor() -> None:
    before = Loud.constructed
    decode(encode(Record("shapes:Loud", {"x": 1})))
    decode(encode(Record("shapes:Point", {"x": 1.0, "y": 2.0})))
    assert Loud.constructed == before


def test_decoding_never_unpickles() -> None:
    planted = pickle.dumps(Exploding())
    with pytest.raises(ValueError):
        decode(planted)
    assert decode(encode(planted)) == planted
    with pytest.raises(ValueError):
        decode_as("msgpack", planted)


class Exploding:
    def __reduce__(self) -> Any:
        return (os._exit, (3,))


@given(st.binary(max_size=60))
@example(b"\xc7\x01\x03\x01")
@example(msgspec.msgpack.encode(msgspec.msgpack.Ext(4, msgspec.msgpack.encode(["?!", [], b""]))))
@example(msgspec.msgpack.encode(msgspec.msgpack.Ext(5, msgspec.msgpack.encode([1, b""]))))
@example(
    msgspec.msgpack.encode(msgspec.msgpack.Ext(6, msgspec.msgpack.encode(["shapes:Pair", {}])))
)
@example(msgspec.msgpack.encode(msgspec.msgpack.Ext(7, msgspec.msgpack.encode(["a"]))))
@settings(max_examples=300)
def test_bytes_that_are_no_value_raise_value_error_and_nothing_else(data: bytes) -> None:
    try:
        decode(data)
    except ValueError:
        pass


@given(values, st.data())
def test_cut_or_changed_bytes_raise_value_error_or_read_as_another_value(
    value: Any, data: st.DataObject
) -> None:
    whole = bytearray(encode(value))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    for broken in (bytes(whole), bytes(whole[:at])):
        try:
            decode(broken)
        except ValueError:
            pass


class Opaque:
    pass


class Text(str):
    __slots__ = ()


REFUSED = [
    ({1, 2}, "set"),
    (frozenset(), "frozenset"),
    (Opaque(), "Opaque"),
    (Colour.RED, "Colour"),
    (Word.HELLO, "Word"),
    (Text("x"), "Text"),
    (np.array([object()], dtype=object), "ndarray"),
    (np.array([{}, []], dtype=object), "ndarray"),
    (len, "builtin_function_or_method"),
    (iter([]), "list_iterator"),
    (collections.OrderedDict(a=1), "OrderedDict"),
    (Point, "type"),
    (range(3), "range"),
    (ValueError("x"), "ValueError"),
    (np.dtype("f8"), "dtype"),
]


@pytest.mark.parametrize(("value", "kind"), REFUSED, ids=[kind for _, kind in REFUSED])
def test_what_has_no_place_in_a_record_is_refused_and_the_field_named(
    value: Any, kind: str
) -> None:
    places = {
        "'rows[1].best'": {"rows": [0, {"best": value}]},
        "'left.x'": Pair(Point(value, 0), 0),
        "'[0][2]'": [(0, 1, value)],
    }
    for place, whole in places.items():
        with pytest.raises(NotEncodable) as caught:
            encode(whole)
        assert place in caught.value.message.replace("'.", "'")
        assert kind in caught.value.message
        assert caught.value.hint
    with pytest.raises(NotEncodable) as caught:
        encode(value)
    assert " at " not in caught.value.message


def test_a_refused_number_or_text_says_what_to_return_instead() -> None:
    for value, call in ((Colour.RED, "int(…)"), (Word.HELLO, "str(…)"), (Text("x"), "str(…)")):
        with pytest.raises(NotEncodable) as caught:
            encode(value)
        assert call in str(caught.value.hint)
    with pytest.raises(NotEncodable) as caught:
        encode({1})
    assert "sorted" in str(caught.value.hint)


def test_a_numpy_text_array_of_any_length_is_refused_or_kept() -> None:
    value = np.array(["a", "bcd"], dtype=np.dtypes.StringDType())
    try:
        data = encode(value)
    except NotEncodable:
        return
    assert list(decode(data)) == ["a", "bcd"]


def test_a_value_that_contains_itself_is_refused() -> None:
    as_list: list[Any] = []
    as_list.append(as_list)
    as_dict: dict[str, Any] = {}
    as_dict["me"] = as_dict
    for value in (as_list, as_dict, {"x": as_list}):
        with pytest.raises(NotEncodable, match="contains itself"):
            encode(value)


@pytest.mark.parametrize(
    "value", ["\ud800", ["ok", "a\udfff"], {"\ud800": 1}, {"x": {"y": "\ud800"}}, ("\ud800",)]
)
def test_text_that_is_not_unicode_is_refused(value: Any) -> None:
    with pytest.raises(NotEncodable, match="Unicode"):
        encode(value)


def test_the_field_with_text_that_is_not_unicode_is_named() -> None:
    with pytest.raises(NotEncodable) as caught:
        encode({"x": {"y": "\ud800"}})
    assert "'x.y'" in caught.value.message


def test_a_deeply_nested_value_is_kept() -> None:
    value: Any = 1
    for _ in range(48):
        value = [value, (value,)] if isinstance(value, int) else {"x": [value]}
    assert decode(encode(value)) == value


def test_pickle_is_there_for_whoever_says_the_word() -> None:
    value = {"x": {1, 2}, "y": Colour.RED}
    data = encode_as("pickle", value)
    assert decode_as("pickle", data) == value
    assert encode_as("msgpack", [1]) == encode([1])
    with pytest.raises(NotEncodable, match="can't be pickled"):
        encode_as("pickle", (i for i in range(3)))


def test_a_function_travels_by_value() -> None:
    offset = 5
    assert load_function(dump_function(lambda x: x + offset))(1) == 6


def test_a_function_that_holds_on_to_an_open_file_can_not_travel(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as file:
        with pytest.raises(UsageError, match="can't be sent to a worker") as caught:
            dump_function(lambda: file.write("x"))
    assert "inside the function" in str(caught.value.hint)


@given(st.tuples(st.integers(0, 9), texts, st.none() | st.binary(), st.floats(allow_nan=False)))
def test_a_checksum_is_stable_and_changes_with_any_column(row: tuple[Any, ...]) -> None:
    assert checksum(row) == checksum(tuple(row))
    for at in range(len(row)):
        changed = (*row[:at], "another", *row[at + 1 :])
        assert checksum(changed) != checksum(row) or row[at] == "another"


@given(values)
def test_any_value_can_be_shown_as_strict_json(value: Any) -> None:
    import json

    json.loads(json.dumps(jsonable(value), allow_nan=False))


def test_json_for_people_says_what_json_can_not() -> None:
    value = {
        "nan": math.nan,
        "inf": -math.inf,
        "bytes": b"ab",
        "point": Point(1.0, 2.0),
        "array": np.arange(3),
        "scalar": np.float64(0.5),
        "pair": Pair(1, 2),
        3: "three",
    }
    assert jsonable(value) == {
        "nan": "NaN",
        "inf": "-Infinity",
        "bytes": "YWI=",
        "point": {"x": 1.0, "y": 2.0},
        "array": [0, 1, 2],
        "scalar": 0.5,
        "pair": {"left": 1, "right": 2},
        "3": "three",
    }
