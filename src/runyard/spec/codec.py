"""Values as canonical msgpack: equal values give equal bytes, on every backend and machine.

Beyond what msgpack has, extension types keep tuples, big integers, complex numbers, byte arrays,
mappings whose keys are not text, numpy scalars and arrays, and records (dataclasses, msgspec
structs, named tuples). Everything else is refused with an error that names the field, so that every
recorded value reads back equal.

A record is decoded to its class if that class is already loaded, otherwise to `Record`;
decoding never imports and never calls a constructor.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from runyard.errors import NotEncodable, ResultTooLarge, UsageError
from runyard.spec import records
from runyard.spec.byvalue import dumps
from runyard.spec.records import fields_of, form_of

CODECS = ("msgpack", "pickle")

DEEPEST = 100
"""The deepest nesting, so that a reader's stack is always sufficient."""

WIDEST = 14_284
"""The most bits of an integer; Python refuses to print larger ones."""

LARGEST = 1 << 30
"""The most bytes of a value. Databases and channels can't take larger ones."""

LONGEST_PATH = 200

_BIG_INT, _TUPLE, _MAPPING, _ARRAY, _SCALAR, _RECORD, _COMPLEX, _BYTEARRAY = range(1, 9)
_NAN = float("nan")
_VERBATIM = frozenset({str, bool, bytes, type(None)})
_KEYS = frozenset({str, bool, bytes, type(None), int, float, complex})
_SMALL = 1 << 62  # integers below this are packed as they are
_pack = msgspec.msgpack.Encoder(order="deterministic").encode

Path = tuple[Any, ...]
"""Where in a value: a field's name, an item's number or, in a tuple of one, a key."""


def encode(value: Any) -> bytes:
    """Canonical bytes of a value."""
    try:
        return _pack(value if type(value) in _VERBATIM else _plain(value, ()))
    except (NotEncodable, MemoryError):
        raise
    except RecursionError:
        raise _too_deep() from None
    except UnicodeEncodeError:
        where = _at(_broken_text(value, ()) or ())
        raise NotEncodable(f"the text{where} can't be recorded: it is not valid Unicode") from None
    except Exception as error:  # usually raised by the value's class
        reason = f"{type(error).__name__}: {error}"
        raise NotEncodable(f"the value can't be recorded: {reason}") from error


def decode(data: bytes) -> Any:
    """The value of canonical bytes; ValueError for other bytes."""
    try:
        return _unpack(data)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"not a value: {type(error).__name__}: {error}") from error


def encode_as(codec: str, value: Any) -> bytes:
    """Bytes of a value in the batch's own codec."""
    data = encode(value) if codec == "msgpack" else _pickled(value)
    if len(data) > LARGEST:
        raise too_large("the value", len(data), LARGEST)
    return data


def too_large(what: str, size: int, limit: int) -> ResultTooLarge:
    """The error for something that takes too many bytes."""
    return ResultTooLarge(
        f"{what} takes {size:,} bytes; the limit is {limit:,}",
        hint="write the data into a file, in ctx.workspace for example, and use its path",
    )


def _pickled(value: Any) -> bytes:
    import cloudpickle

    try:
        return cast("bytes", cloudpickle.dumps(value, protocol=5))
    except MemoryError:
        raise
    except Exception as error:
        raise NotEncodable(f"the value can't be pickled: {error}") from error


def decode_as(codec: str, data: bytes) -> Any:
    """The value of bytes; unpickled only if `codec` is "pickle"."""
    return pickle.loads(data) if codec == "pickle" else decode(data)


def checksum(columns: tuple[Any, ...], start: int = 0) -> int:
    """A number that changes if any column of a row or `start` does."""
    return zlib.crc32(_pack(columns), start)


def _plain(value: Any, path: Path) -> Any:  # noqa: C901
    """The value in types that msgspec packs directly; `path` is for errors."""
    kind = type(value)
    if kind in _VERBATIM:
        return value
    if kind is int:
        return value if -(1 << 63) <= value < (1 << 64) else _big_int(value, path)
    if kind is float:
        return value if value == value else _NAN
    if len(path) >= DEEPEST:
        raise _too_deep()
    if kind is dict:
        if all(type(k) is str for k in value):
            return {
                k: v if type(v) in _VERBATIM or (type(v) is float and v == v)
                or (type(v) is int and -_SMALL < v < _SMALL)
                else _plain(v, (*path, k))
                for k, v in value.items()
            }  # fmt: skip
        return _ext(_MAPPING, _pairs(value, path))
    if kind is list:
        return [
            v if type(v) in _VERBATIM or (type(v) is float and v == v)
            or (type(v) is int and -_SMALL < v < _SMALL)
            else _plain(v, (*path, i))
            for i, v in enumerate(value)
        ]  # fmt: skip
    if kind is tuple:
        return _ext(_TUPLE, [_plain(v, (*path, i)) for i, v in enumerate(value)])
    if kind is complex:
        return _ext(_COMPLEX, [_plain(value.real, path), _plain(value.imag, path)])
    if kind is bytearray:
        return msgspec.msgpack.Ext(_BYTEARRAY, bytes(value))
    if kind.__module__ == "numpy":
        return _plain_numpy(value, path)
    fields = fields_of(value)
    if fields is None:
        raise _refused(value, path)
    return _plain_record(value, fields, path)


def _pairs(value: dict[Any, Any], path: Path) -> list[tuple[bytes, bytes]]:
    """The packed, sorted items of a dict whose keys are not all text."""
    found: dict[bytes, bytes] = {}
    for key, part in value.items():
        if not _can_be_key(key):
            raise NotEncodable(
                f"a key of type {_name_of(type(key))}{_at(path)} can't be recorded",
                hint="use text, numbers, or tuples of them as the keys of a dict",
            )
        place = (*path, (key,))
        packed = _pack(_plain(key, place))
        if packed in found:
            raise NotEncodable(
                f"the dict{_at(path)} can't be recorded: two of its keys have the same record "
                f"({_step((key,))})"
            )
        found[packed] = _pack(_plain(part, place))
    return sorted(found.items())


def _can_be_key(key: Any) -> bool:
    """Whether a key is hashed without user code, so that every process can."""
    kind = type(key)
    if kind is tuple:
        return all(map(_can_be_key, key))
    return kind in _KEYS or (kind.__module__ == "numpy" and _is_simple_scalar(key))


def _is_simple_scalar(value: Any) -> bool:
    import numpy as np

    return isinstance(value, np.generic) and not isinstance(value, np.void)


def _plain_record(value: Any, fields: dict[str, Any], path: Path) -> msgspec.msgpack.Ext:
    form, name = form_of(type(value)), records.type_name(value)
    if form is None:
        if type(name) is not str or not all(type(key) is str for key in fields):
            raise _refused(value, path)
    elif form.obstacle:
        raise _refused(value, path, form.obstacle)
    elif len(fields) < len(form.names):
        missing = next(each for each in form.names if each not in fields)
        raise _refused(value, path, f"its field {missing!r} has no value")
    return _ext(_RECORD, [name, {k: _plain(v, (*path, k)) for k, v in fields.items()}])


def _plain_numpy(value: Any, path: Path) -> msgspec.msgpack.Ext:
    import numpy as np

    from runyard.spec import arrays

    size = getattr(value, "nbytes", 0)
    if isinstance(size, int) and size > LARGEST:
        raise too_large(f"the array{_at(path)}", size, LARGEST)
    try:
        content = arrays.to_data(value)
    except arrays.Unfit as reason:
        raise _refused(value, path, str(reason)) from None
    code = _SCALAR if isinstance(value, np.generic) else _ARRAY
    return _ext(code, _plain(content, path))


_PLAIN_TYPES = (int, float, str, bytes, list, dict, tuple)


def _refused(value: Any, path: Path, reason: str = "") -> NotEncodable:
    kind = type(value)
    hint = "return numbers, text, bytes, lists, dicts, dataclasses or numpy arrays"
    if kind in (set, frozenset):
        hint = "a set has no order; return sorted(…) instead"
    elif kind is memoryview:
        hint = "return bytes(…) of it"
    elif kind.__mro__[1:2] and any(each.__name__ == "ndarray" for each in kind.__mro__[1:]):
        hint = "return np.asarray(…) of it"
    elif isinstance(value, _PLAIN_TYPES) and not reason:
        plain = next(base for base in _PLAIN_TYPES if isinstance(value, base))
        hint = f"return {plain.__name__}(…) of it"
    because = f": {reason}" if reason else ""
    return NotEncodable(
        f"a value of type {_name_of(kind)}{_at(path)} can't be recorded{because}",
        hint=f'{hint}, or pass codec="pickle" to the batch',
    )


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _at(path: Path) -> str:
    return f" at {_text_of(path)!r}" if path else ""


def _text_of(path: Path) -> str:
    """A path as text: `rows[1].best`."""
    steps = (f".{step}" if type(step) is str else f"[{_step(step)}]" for step in path)
    return "".join(steps).removeprefix(".")[:LONGEST_PATH]


def _step(step: Any) -> str:
    if type(step) is int:
        return str(step)
    try:
        return repr(step[0])
    except ValueError:  # an integer of too many digits
        return "…"


def _too_deep() -> NotEncodable:
    return NotEncodable(
        "the value can't be recorded: it is nested too deeply, or contains itself "
        f"(at most {DEEPEST} levels)"
    )


def _ext(code: int, content: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _pack(content))


def _big_int(value: int, path: Path) -> msgspec.msgpack.Ext:
    if value.bit_length() > WIDEST:
        raise NotEncodable(
            f"the integer{_at(path)} can't be recorded: it has {value.bit_length():,} bits, "
            f"at most {WIDEST:,} can be written in digits",
            hint="return its logarithm, or its bytes: value.to_bytes(…)",
        )
    size = value.bit_length() // 8 + 1
    return msgspec.msgpack.Ext(_BIG_INT, value.to_bytes(size, "big", signed=True))


def _broken_text(value: Any, path: Path) -> Path | None:
    """Where in a value a text is that UTF-8 can't encode."""
    if isinstance(value, str):
        return None if _is_text(value) else path
    fields = value if isinstance(value, dict) else fields_of(value)
    inner: Iterable[tuple[Any, Any]] = ()
    if fields is not None:
        if any(_broken_text(key, path) is not None for key in fields):
            return (*path, ("a key",))
        inner = ((k if type(k) is str else (k,), part) for k, part in fields.items())
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    if len(path) > DEEPEST:
        return None
    found = (_broken_text(part, (*path, step)) for step, part in inner)
    return next((place for place in found if place is not None), None)


def _is_text(text: str) -> bool:
    return text.encode(errors="replace").decode() == text


def _restore(code: int, data: memoryview) -> Any:
    if code == _BIG_INT:
        if len(data) > WIDEST // 8 + 1:
            raise ValueError("an integer that is too large")
        return int.from_bytes(data, "big", signed=True)
    if code == _BYTEARRAY:
        return bytearray(data)
    content = _unpack(data)
    if code == _TUPLE:
        return tuple(content)
    if code == _MAPPING:
        return dict(_restore_pair(*pair) for pair in content)
    if code == _COMPLEX:
        return complex(*content)
    if code == _RECORD:
        return records.restore(*content)
    if code in (_ARRAY, _SCALAR):
        from runyard.spec import arrays

        return arrays.from_data(content, scalar=code == _SCALAR)
    raise ValueError(f"unknown extension type {code}")


def _restore_pair(key: bytes, part: bytes) -> tuple[Any, Any]:
    found = _unpack(key)
    if not _can_be_key(found):
        raise ValueError("a key that is not one")
    return found, _unpack(part)


_unpack: Callable[[Any], Any] = msgspec.msgpack.Decoder(ext_hook=_restore).decode


def dump_function(function: Callable[..., Any]) -> bytes:
    """A function by value, for workers that can't import it. Never stored."""
    try:
        return dumps(function)
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(
            f"the function {name} can't be sent to a worker: {error}",
            hint="it refers to something that can't be pickled (an open file, a lock, a "
            "connection); create that inside the function, or put the function in a module",
        ) from error


def load_function(data: bytes) -> Callable[..., Any]:
    """The function of bytes that this engine's process sent."""
    return cast("Callable[..., Any]", pickle.loads(data))
