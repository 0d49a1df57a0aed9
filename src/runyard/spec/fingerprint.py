"""A hash of what a function does: its code and what it closes over, not its place or comments.

Equal in every process that has the same code. For a function that travels by value, the values it
uses from its script count too: without a name in a module, they are part of what it is.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

from runyard.errors import NotEncodable
from runyard.spec.codec import encode


def fingerprint(function: Callable[..., Any]) -> str:
    """The hash, short enough to show."""
    parts = repr(_describe(function, set()))
    return hashlib.sha256(parts.encode(errors="backslashreplace")).hexdigest()[:16]


def _describe(value: Any, seen: set[int]) -> Any:
    """A value as something whose `repr` is the same in every process."""
    if id(value) in seen:
        return "(again)"
    if isinstance(value, functools.partial):
        return "partial", *(_describe(v, seen) for v in (value.func, value.args, value.keywords))
    if inspect.isfunction(value):
        return _function(value, seen | {id(value)})
    if inspect.ismethod(value):
        return _describe(value.__func__, seen), _describe(value.__self__, seen)
    if isinstance(value, ModuleType):
        return "module", value.__name__
    if isinstance(value, type):
        return value.__module__, value.__qualname__
    if inspect.isbuiltin(value):
        owner = value.__self__
        held = None if isinstance(owner, ModuleType) else _describe(owner, seen | {id(value)})
        return value.__module__, value.__qualname__, held
    try:
        return encode(value)
    except NotEncodable:
        return _object(value, seen | {id(value)})


def _function(function: Any, seen: set[int]) -> Any:
    code = function.__code__
    cells = [_cell(cell, seen) for cell in function.__closure__ or ()]
    defaults = _describe(function.__defaults__, seen), _describe(function.__kwdefaults__, seen)
    used: list[Any] = []
    if function.__module__ == "__main__":
        names = [name for name in _names(code) if name in function.__globals__]
        used = [(name, _describe(function.__globals__[name], seen)) for name in names]
    return _code(code), cells, defaults, used


def _object(value: Any, seen: set[int]) -> Any:
    """Containers part by part; other objects by their class, its `__call__` and their fields."""
    if isinstance(value, list | tuple):
        return type(value).__name__, [_describe(part, seen) for part in value]
    if isinstance(value, set | frozenset):
        return "set", sorted(repr(_describe(part, seen)) for part in value)
    if isinstance(value, dict):
        return "dict", sorted((repr(k), repr(_describe(v, seen))) for k, v in value.items())
    kind = type(value)
    call = getattr(kind, "__call__", None)  # noqa: B004
    how = _describe(call, seen) if inspect.isfunction(call) else None
    return kind.__module__, kind.__qualname__, how, _describe(_state(value), seen)


def _state(value: Any) -> Any:
    """What tells an object from others of its class: its fields, or what it is pickled as."""
    kind: Any = type(value)
    plain = kind.__reduce__ is object.__reduce__ and kind.__reduce_ex__ is object.__reduce_ex__
    if plain and hasattr(value, "__dict__"):
        return vars(value)
    reduce = copyreg.dispatch_table.get(kind)
    try:
        parts = reduce(value) if reduce is not None else value.__reduce_ex__(4)
    except Exception:
        return None
    if isinstance(parts, str):
        return parts
    return [list(part) if isinstance(part, Iterator) else part for part in parts]


def _cell(cell: Any, seen: set[int]) -> Any:
    try:
        return _describe(cell.cell_contents, seen)
    except ValueError:
        return "(empty)"


def _code(code: CodeType) -> Any:
    constants = [_constant(constant) for constant in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _constant(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return _code(constant)
    if isinstance(constant, frozenset):
        return sorted(repr(part) for part in constant)
    return repr(constant)


def _names(code: CodeType) -> list[str]:
    inner = [name for c in code.co_consts if isinstance(c, CodeType) for name in _names(c)]
    return sorted({*code.co_names, *inner})
