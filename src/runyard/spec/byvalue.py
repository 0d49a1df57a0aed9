"""Functions and arguments by value, for workers that can't import them. Never stored."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable
from typing import Any

Reduce = Callable[[Any], Any]


def dumps(value: Any, reduce: Reduce | None = None) -> bytes:
    """Pickle a value, together with what a script or notebook defines.

    `reduce` may return how to pickle a part, or None for the usual way.
    """
    with io.BytesIO() as file:
        _pickler()(file, reduce).dump(value)
        return file.getvalue()


@functools.cache
def _pickler() -> Any:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO, reduce: Reduce | None) -> None:
            super().__init__(file, protocol=5)
            self._reduce = reduce

        def reducer_override(self, obj: Any) -> Any:
            found = None if self._reduce is None else self._reduce(obj)
            if found is None:
                found = _reduce_cached(obj)
            return super().reducer_override(obj) if found is None else found

    return Pickler


def _reduce_cached(obj: Any) -> Any:
    """Pickle `functools` caches without their content; pickle itself would only send a name."""
    if type(obj) is functools.cached_property:
        return functools.cached_property, (obj.func,), {"attrname": obj.attrname}
    if not isinstance(obj, functools._lru_cache_wrapper) or is_imported(obj):
        return None
    options = obj.cache_parameters()
    return _cached, (obj.__wrapped__, options["maxsize"], options["typed"]), vars(obj)


def _cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


def is_imported(obj: Any) -> bool:
    """Whether another process can import the object by its module and name."""
    module = getattr(obj, "__module__", None)
    found: Any = None if module == "__main__" else sys.modules.get(module or "")
    for part in getattr(obj, "__qualname__", type(obj).__qualname__).split("."):
        found = getattr(found, part, None)
    return found is obj
