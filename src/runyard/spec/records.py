"""Records: dataclasses, msgspec structs and named tuples, by the fields they declare.

A record is rebuilt from its fields alone, without calling a constructor or `__post_init__`. If a
class has an obstacle to that, its instances are refused when they are encoded.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from types import MemberDescriptorType
from typing import Any, NamedTuple

import msgspec


class Record(dict[str, Any]):
    """A dataclass or struct whose class is not loaded: its fields, by key or attribute."""

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


class Form(NamedTuple):
    """What the instances of a class consist of."""

    names: tuple[str, ...]
    obstacle: str | None  # why they can't be rebuilt from their fields


def form_of(kind: type) -> Form | None:
    """The form of a record's class; None for any other class."""
    return _form_of(kind)


@lru_cache(maxsize=512)
def _form_of(kind: type) -> Form | None:
    if hasattr(kind, "__dataclass_fields__"):
        names = tuple(field.name for field in dataclass_fields(kind))
        return Form(names, _finalizer(kind) or _dataclass_obstacle(kind, names))
    if issubclass(kind, msgspec.Struct):
        return Form(kind.__struct_fields__, _finalizer(kind) or _struct_obstacle(kind))
    names = getattr(kind, "_fields", None)  # type: ignore[assignment]
    if issubclass(kind, tuple) and type(names) is tuple and all(type(n) is str for n in names):
        return Form(names, _finalizer(kind))
    return None


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a record that are set; None for anything else."""
    kind = type(value)
    if kind is Record:
        return dict(value)
    form = form_of(kind)
    if form is None:
        return None
    if isinstance(value, tuple) and not hasattr(kind, "__dataclass_fields__"):
        return dict(zip(form.names, value, strict=False))
    try:
        return {name: getattr(value, name) for name in form.names}
    except AttributeError:
        return {name: getattr(value, name) for name in form.names if hasattr(value, name)}


def type_name(value: Any) -> str:
    """The module and name of a record's class."""
    if isinstance(value, Record):
        return value.type_name
    return f"{type(value).__module__}:{type(value).__qualname__}"


def restore(name: Any, fields: Any) -> Any:
    """A record of its class if that is loaded and unchanged, otherwise a `Record`."""
    if type(name) is not str or type(fields) is not dict or not all(type(k) is str for k in fields):
        raise ValueError("not a record")
    cls = _loaded_class(name)
    form = None if cls is None else form_of(cls)
    if cls is None or form is None or form.obstacle or set(form.names) != set(fields):
        return Record(name, fields)
    if issubclass(cls, msgspec.Struct):  # its constructor only sets fields
        return cls(**fields)
    if not hasattr(cls, "__dataclass_fields__"):
        content = [fields[each] for each in form.names]
        return tuple.__new__(cls, content)  # type: ignore[type-var]
    instance = object.__new__(cls)
    for field, value in fields.items():
        object.__setattr__(instance, field, value)
    return instance


def _finalizer(kind: type) -> str | None:
    """Refuse finalizers, which untrusted bytes must not be able to choose."""
    return "its class has a __del__" if hasattr(kind, "__del__") else None


def _dataclass_obstacle(kind: type, names: tuple[str, ...]) -> str | None:
    try:
        object.__new__(kind)
    except TypeError:  # it has more than fields: a dict's items, an error's arguments
        base = next((c for c in kind.__mro__ if c.__module__ == "builtins"), object)
        return f"its class is also a {base.__name__}"
    for name in names:
        found = inspect.getattr_static(kind, name, None)
        if isinstance(found, MemberDescriptorType):
            continue
        if hasattr(type(found), "__set__") or not kind.__dictoffset__:
            return f"its field {name!r} is computed"
    return None


def _struct_obstacle(kind: type) -> str | None:
    if hasattr(kind, "__post_init__"):
        return "its class has a __post_init__"
    return None if type(kind) is type(msgspec.Struct) else "its class has a metaclass"


def _loaded_class(name: str) -> type | None:
    """The class of this name, if it is already imported."""
    module_name, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None
