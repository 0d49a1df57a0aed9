"""Values as canonical msgpack: equal values give equal bytes, on every backend and machine.

Beyond what msgpack has, extension types keep tuples, big integers, complex numbers, mappings with
other keys than text, numpy scalars and arrays, and records (dataclasses, msgspec structs, named
tuples). Everything else is refused by an error that names the field, so that nothing is recorded
that reads back as something else.

A record is decoded to its own class where that class is already loaded, otherwise to `Record`;
decoding never imports and never calls a constructor.
"""

from __future__ import annotations

import base64
import io
import math
import pickle
import sys
import zlib
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from runyard.errors import NotEncodable, UsageError

CODECS = ("msgpack", "pickle")

_BIG_INT, _TUPLE, _MAPPING, _ARRAY, _SCALAR, _RECORD, _COMPLEX = range(1, 8)
_NAN = float("nan")
_VERBATIM = frozenset({str, bool, bytes, type(None)})
_SMALL = 1 << 62  # integers below this are packed as they are
_pack = msgspec.msgpack.Encoder(order="deterministic").encode


class Record(dict[str, Any]):
    """A dataclass or struct whose class is not loaded here: its fields, by key or attribute."""

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v!r}" for k, v in self.items())
        return f"{self.type_name.partition(':')[2]}({fields})"


def encode(value: Any) -> bytes:
    """Canonical bytes of a value."""
    try:
        return _pack(value if type(value) in _VERBATIM else _plain(value, ""))
    except RecursionError:
        raise NotEncodable("the value is nested too deeply, or contains itself") from None
    except UnicodeEncodeError:
        where = _broken_text(value, "")
        raise NotEncodable(f"the text at {where!r} is not valid Unicode") from None


def list_head(length: int) -> bytes:
    """How the canonical bytes of a short list begin; those of its items follow."""
    assert length < 16  # what one byte can announce
    return bytes((0x90 | length,))


def decode(data: bytes) -> Any:
    """The value behind canonical bytes; raises ValueError where they are not that."""
    try:
        return _unpack(data)
    except Exception as error:
        raise ValueError(f"not a value: {type(error).__name__}: {error}") from error


def encode_as(codec: str, value: Any) -> bytes:
    """Bytes of a value in the batch's own codec."""
    if codec == "msgpack":
        return encode(value)
    import cloudpickle

    try:
        return cast("bytes", cloudpickle.dumps(value, protocol=5))
    except Exception as error:
        raise NotEncodable(f"the value can't be pickled: {error}") from error


def decode_as(codec: str, data: bytes) -> Any:
    """The value behind bytes; unpickles only when the caller says the word `pickle`."""
    return pickle.loads(data) if codec == "pickle" else decode(data)


def checksum(columns: tuple[Any, ...], start: int = 0) -> int:
    """A number that changes when any column of a row does, or the number it starts from."""
    return zlib.crc32(_pack(columns), start)


def jsonable(value: Any) -> Any:
    """The value as plain JSON: for people and files, not for reading back exactly."""
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {k if isinstance(k, str) else repr(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    fields = fields_of(value)
    if fields is not None:
        return {k: jsonable(v) for k, v in fields.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if type(value).__module__ == "numpy":
        return jsonable(value.tolist())
    return repr(value)


def _plain(value: Any, path: str) -> Any:  # noqa: C901
    """The value in types that msgspec packs as they are; `path` is for errors."""
    kind = type(value)
    if kind in _VERBATIM:
        return value
    if kind is int:
        return value if -(1 << 63) <= value < (1 << 64) else _big_int(value)
    if kind is float:
        return value if value == value else _NAN
    if kind is dict:
        if all(type(k) is str for k in value):
            return {
                k: v if type(v) in _VERBATIM or (type(v) is float and v == v)
                or (type(v) is int and -_SMALL < v < _SMALL)
                else _plain(v, f"{path}.{k}")
                for k, v in value.items()
            }  # fmt: skip
        pairs = [(encode(k), _pack(_plain(v, f"{path}[{k!r}]"))) for k, v in value.items()]
        return _ext(_MAPPING, sorted(pairs))
    if kind is list:
        return [
            v if type(v) in _VERBATIM or (type(v) is float and v == v)
            or (type(v) is int and -_SMALL < v < _SMALL)
            else _plain(v, f"{path}[{i}]")
            for i, v in enumerate(value)
        ]  # fmt: skip
    if kind is tuple:
        return _ext(_TUPLE, [_plain(v, f"{path}[{i}]") for i, v in enumerate(value)])
    if kind is complex:
        return _ext(_COMPLEX, [_plain(value.real, path), _plain(value.imag, path)])
    if kind is bytearray:
        return bytes(value)
    if kind.__module__ == "numpy":
        return _plain_numpy(value, path)
    fields = fields_of(value)
    if fields is not None:
        plain = {k: _plain(v, f"{path}.{k}") for k, v in fields.items()}
        return _ext(_RECORD, [_type_name(value), plain])
    raise _refused(value, path)


def _refused(value: Any, path: str) -> NotEncodable:
    kind = type(value)
    hint = "return numbers, text, bytes, lists, dicts, dataclasses or numpy arrays"
    if kind in (set, frozenset):
        hint = "a set has no order; return sorted(…) instead"
    elif isinstance(value, int | float | str):
        plain = next(base for base in (int, float, str) if isinstance(value, base))
        hint = f"return {plain.__name__}(…) of it"
    where = f" at {path.lstrip('.')!r}" if path else ""
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return NotEncodable(
        f"a value of type {name}{where} can't be recorded",
        hint=f'{hint}, or say codec="pickle" for the batch',
    )


def _ext(code: int, content: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _pack(content))


def _big_int(value: int) -> msgspec.msgpack.Ext:
    size = value.bit_length() // 8 + 1
    return msgspec.msgpack.Ext(_BIG_INT, value.to_bytes(size, "big", signed=True))


def _plain_numpy(value: Any, path: str) -> msgspec.msgpack.Ext:
    import numpy as np

    known = isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject
    if not known or value.dtype.char in "gG":  # the long ones differ between machines
        raise _refused(value, path)
    plain = _canonical_array(np.asarray(value))
    dtype = plain.dtype
    described = dtype.str if dtype.names is None else _plain(dtype.descr, path)
    if isinstance(value, np.generic):
        return _ext(_SCALAR, [described, plain.tobytes()])
    return _ext(_ARRAY, [described, list(plain.shape), plain.tobytes()])


def _canonical_array(array: Any) -> Any:
    """The array without padding between its fields, and with one NaN for all."""
    import numpy as np

    if array.dtype.names is not None:
        from numpy.lib.recfunctions import repack_fields

        packed = np.array(repack_fields(array))
        for name in packed.dtype.names or ():
            packed[name] = _canonical_array(packed[name])
        return packed
    if array.dtype.kind not in "fc" or not np.isnan(array).any():
        return array
    parts = np.array(array, ndmin=1).view(array.real.dtype)
    parts[np.isnan(parts)] = np.nan
    return parts.view(array.dtype).reshape(array.shape)


def _broken_text(value: Any, path: str) -> str:
    """Where in a value a text stands that has no UTF-8 form."""
    fields = value if isinstance(value, dict) else fields_of(value)
    inner: Iterable[tuple[str, Any]] = ()
    if fields is not None:
        inner = ((f"{path}.{key}", part) for key, part in fields.items())
        if not all(_is_text(key) for key in fields):
            return path.lstrip(".") or "a key"
    elif isinstance(value, list | tuple):
        inner = ((f"{path}[{at}]", part) for at, part in enumerate(value))
    elif isinstance(value, str) and not _is_text(value):
        return path.lstrip(".") or "the value"
    return next((found for place, part in inner if (found := _broken_text(part, place))), "")


def _is_text(text: Any) -> bool:
    return not isinstance(text, str) or text.encode(errors="replace").decode() == text


def fields_of(value: Any) -> dict[str, Any] | None:
    """What a record holds; None for anything else."""
    kind = type(value)
    if kind is Record:
        return dict(value)
    names = _field_names(kind)
    return None if names is None else {name: getattr(value, name) for name in names}


def _field_names(kind: type) -> tuple[str, ...] | None:
    if hasattr(kind, "__dataclass_fields__"):
        from dataclasses import fields

        return tuple(field.name for field in fields(kind))
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    return getattr(kind, "_fields", None) if issubclass(kind, tuple) else None


def _type_name(value: Any) -> str:
    if isinstance(value, Record):
        return value.type_name
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _restore(code: int, data: memoryview) -> Any:
    if code == _BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    content = _unpack(data)
    if code == _TUPLE:
        return tuple(content)
    if code == _MAPPING:
        return {_unpack(k): _unpack(v) for k, v in content}
    if code == _COMPLEX:
        return complex(*content)
    if code == _RECORD:
        return _restore_record(*content)
    if code in (_ARRAY, _SCALAR):
        return _restore_numpy(code, content)
    raise ValueError(f"unknown extension type {code}")


def _restore_numpy(code: int, content: list[Any]) -> Any:
    import numpy as np

    dtype = np.dtype(content[0])
    shape = () if code == _SCALAR else content[1]
    if dtype.itemsize == 0:
        found = np.zeros(shape, dtype)
    else:
        found = np.frombuffer(content[-1], dtype=dtype).reshape(shape).copy()
    return found[()] if code == _SCALAR else found


def _restore_record(type_name: str, fields: dict[str, Any]) -> Any:
    cls = _loaded_class(type_name)
    if cls is None or set(_field_names(cls) or ()) != set(fields):
        return Record(type_name, dict(fields))
    if issubclass(cls, tuple):
        return tuple.__new__(cls, (fields[name] for name in cls._fields))  # type: ignore[attr-defined]
    if issubclass(cls, msgspec.Struct):  # its constructor sets fields and does nothing else
        return cls(**fields)
    instance = cls.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def _loaded_class(type_name: str) -> type | None:
    """The class of this name if it is here; looks only, so that nothing is imported."""
    module_name, _, qualname = type_name.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if not isinstance(found, type) or _field_names(found) is None:
        return None
    runs_code = issubclass(found, msgspec.Struct) and hasattr(found, "__post_init__")
    return None if runs_code else found


_unpack: Callable[[Any], Any] = msgspec.msgpack.Decoder(ext_hook=_restore).decode


def dump_function(function: Callable[..., Any]) -> bytes:
    """A function by value, for workers that can't import it. Never stored."""
    import cloudpickle

    try:
        return cast("bytes", cloudpickle.dumps(function, protocol=5))
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(
            f"the function {name} can't be sent to a worker: {error}",
            hint="it holds on to something that can't be pickled (an open file, a lock, a "
            "connection); create that inside the function, or put the function in a module",
        ) from error


def load_function(data: bytes) -> Callable[..., Any]:
    """The function behind bytes that this engine's own process sent."""
    return cast("Callable[..., Any]", pickle.load(io.BytesIO(data)))
