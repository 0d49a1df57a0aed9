"""What is recorded can be read, shown and told of; everything else is refused by name."""

from __future__ import annotations

import json
import pickle
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from nasty import KEPT, REFUSED
from shapes import (
    Checked,
    Derived,
    Finalised,
    Hashed,
    Longer,
    MadeItself,
    Pair,
    Point,
    Tagged,
    Untracked,
    Walk,
    hashes,
)

from runyard.errors import NotEncodable, ResultTooLarge
from runyard.events import TaskEmitted, to_record
from runyard.spec import arrays, codec
from runyard.spec.codec import DEEPEST, decode, encode, encode_as
from runyard.spec.fields import parts
from runyard.spec.records import Record, fields_of
from runyard.spec.shown import jsonable

numpy_types = st.one_of(
    arrays_of.scalar_dtypes(), arrays_of.array_dtypes(), arrays_of.nested_dtypes()
)
numpy_arrays = arrays_of.arrays(
    numpy_types, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
).flatmap(lambda a: st.sampled_from([a, np.asfortranarray(a), a[..., ::-1] if a.ndim else a[()]]))
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=8),
    st.text(st.characters(categories=["Cs", "Cc"]), max_size=2),
    st.binary(max_size=8),
    st.binary(max_size=8).map(bytearray),
    numpy_arrays,
    st.sampled_from([*KEPT, *REFUSED]).map(lambda name: KEPT.get(name, REFUSED.get(name))),
)
anything = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=4),
        st.dictionaries(
            st.recursive(
                st.one_of(st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=2)),
                lambda key: st.tuples(key, key) | st.builds(Pair, key, key),
                max_leaves=3,
            ),
            inner,
            max_size=4,
        ),
        st.builds(Point, inner, inner),
        st.builds(Derived, x=inner, y=inner, name=inner),
        st.builds(MadeItself, inner),
        st.builds(Longer, inner, inner),
        st.builds(Tagged, inner),
        st.builds(Untracked, x=inner),
        st.builds(lambda x: Record("nowhere:Thing", {"x": x}), inner),
    ),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:
    """Equal in type and content, NaN equal to itself, the sign of zero kept."""
    if type(left) is not type(right):
        return False
    if isinstance(left, str | bytes):
        return str(left) == str(right) and len(left) == len(right)
    if isinstance(left, np.ndarray | np.generic):
        alike = arrays._described(left.dtype) == arrays._described(right.dtype)
        return alike and left.shape == right.shape and same(left.tolist(), right.tolist())
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, complex):
        return same([left.real, left.imag], [right.real, right.imag])
    if type(left) is dict:
        keys = {encode(key): key for key in left}, {encode(key): key for key in right}
        return keys[0].keys() == keys[1].keys() and all(
            same(keys[0][k], keys[1][k]) and same(left[keys[0][k]], right[keys[1][k]])
            for k in keys[0]
        )
    fields = fields_of(left)
    if fields is not None:
        return same(fields, fields_of(right))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def use(value: Any) -> None:
    """What is done with values that are read: files, tables, reports, events, parameters."""
    json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False).encode()
    for path, part in parts(value):
        f"{path}{part if isinstance(part, str) else ''}".encode()
    event = TaskEmitted(batch="b", task=0, kind="k", data={"value": value})
    json.dumps(to_record(event), allow_nan=False, ensure_ascii=False).encode()
    repr(value)


def check(value: Any) -> None:
    data = encode(value)
    back = decode(data)
    assert same(back, value)
    assert encode(back) == data
    use(back)


@settings(max_examples=1000)
@given(anything)
def test_any_value_is_refused_or_reads_back_as_what_it_was(value: Any) -> None:
    try:
        encode(value)
    except NotEncodable as refusal:
        assert refusal.message.encode()
        return
    check(value)


@pytest.mark.parametrize("name", KEPT)
def test_odd_values_are_kept(name: str) -> None:
    check(KEPT[name])
    check({"a": [KEPT[name]], "b": (KEPT[name],)})


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_kept_is_refused_wherever_it_stands(name: str) -> None:
    for whole in (REFUSED[name], {"left": [REFUSED[name]]}, Pair(REFUSED[name], 1)):
        with pytest.raises(NotEncodable) as caught:
            encode(whole)
        assert len(str(caught.value)) < 1000
        if whole is not REFUSED[name]:
            assert "left" in caught.value.message or "deeply" in caught.value.message


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_pickle_keeps_can_be_shown(name: str) -> None:
    value = REFUSED[name]
    json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False).encode()
    for path, part in parts(value):
        path.encode()
        jsonable(part)


def test_keys_that_look_alike_stay_apart_when_shown() -> None:
    value = {1: "a", "1": "b"}
    assert jsonable(value) == {"1": "a", "'1'": "b"}
    assert dict(parts(value)) == {"1": "a", "'1'": "b"}


def test_reading_calls_nothing_of_a_class() -> None:
    named = [encode(Record(f"shapes:{kind.__name__}", {"x": 1})) for kind in (Checked, Finalised)]
    Finalised.ends.clear()
    Checked.checks.clear()
    hashes.clear()
    for data in named:
        assert type(decode(data)) is Record
    pair = msgspec.msgpack.encode([encode(Hashed(1)), encode(1)])
    planted = msgspec.msgpack.encode(msgspec.msgpack.Ext(3, b"\x91" + pair))
    with pytest.raises(ValueError, match="key"):
        decode(planted)
    with pytest.raises(AssertionError):
        MadeItself(MadeItself)
    assert decode(encode(MadeItself(1)).replace(b"\x01", b"\x02")).x == 2
    assert Finalised.ends == Checked.checks == hashes == []


@pytest.mark.parametrize("shell", [list, tuple, Point, Pair, dict, Walk, Record])
def test_what_is_nested_as_deeply_as_can_be_is_read_with_half_of_the_stack(shell: Any) -> None:
    value: Any = 1
    for _ in range(DEEPEST):
        value = {
            list: lambda v: [v], tuple: lambda v: (v,), dict: lambda v: {1: v},
            Point: lambda v: Point(v, 0), Pair: lambda v: Pair(v, 0),
            Walk: lambda v: Walk(1, v), Record: lambda v: Record("a:b", {"x": v}),
        }[shell](value)  # fmt: skip
    data = encode(value)

    def below(frames: int) -> None:
        if frames:
            below(frames - 1)
        else:
            use(decode(data))

    below(450)


def planted(code: int, *content: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(content)))


HOSTILE = [
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x91" * 100_000,
    msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x7f" * 5000)),
    msgspec.msgpack.encode(msgspec.msgpack.Ext(7, b"\xc7\xff\xff\xff")),
    planted(4, "V0", [1 << 60], b""),
    planted(4, "<f8", [1 << 60, 0], b""),
    planted(4, "<f8", [-1], b"\0" * 8),
    planted(4, "O", [1], b"\0" * 8),
    planted(4, "f8,(1000000000)i4", [1], b"\0" * 8),
    planted(4, "<U1", [1], b"\xff" * 4),
    planted(4, "<U1", [1], b"\0\xd8\0\0"),
    planted(4, {"names": ["a"], "formats": ["O"]}, [1], b"\0" * 8),
    planted(4, {"names": ["a"], "formats": ["<f8"], "offsets": [0]}, [1], b"\0" * 8),
    planted(4, {"names": [], "formats": []}, [1 << 60], b""),
    planted(4, [["a", "<f8"]], [1], b"\0" * 8),
    planted(5, "<M8[9223372036854775807Y]", b"\0" * 8),
    planted(5, "U", 7),
    planted(6, 7, {"x": 1}),
    planted(6, "shapes:Pair", {1: 2}),
    planted(6, "shapes:Pair", [1]),
    planted(3, [b"\x81", b"\x01"]),
    planted(3, [b"\x90", b"\x01"]),
    planted(3, 1, 2),
    pickle.dumps({1}),
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_planted_bytes_raise_value_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


@given(st.sampled_from([encode(value) for value in KEPT.values()]), st.data())
def test_changed_bytes_of_odd_values_raise_value_error_or_can_be_shown(
    data: bytes, draw: st.DataObject
) -> None:
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        changed[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        value = decode(bytes(changed))
    except ValueError:
        return
    json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", ["msgpack", "pickle"])
def test_a_value_that_is_too_large_is_refused_by_name(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "LARGEST", 1000)
    assert encode_as(kind, b"x" * 900)
    for value in (b"x" * 1001, ["x" * 600, "y" * 600], np.zeros(200)):
        with pytest.raises(ResultTooLarge, match="bytes; the limit is 1,000"):
            encode_as(kind, value)


def test_an_array_that_is_too_large_is_refused_before_it_is_copied() -> None:
    endless = np.broadcast_to(np.zeros(1), (1 << 40,))
    with pytest.raises(ResultTooLarge, match=r"'rows\[0\]'"):
        encode({"rows": [endless]})
