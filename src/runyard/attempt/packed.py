"""Packed calls: a function with its arguments, pickled, sent to a worker and never stored.

Each call is unpickled anew, so that a task that changes its function or its arguments does not
affect the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from runyard.errors import UsageError
from runyard.spec.byvalue import Reduce, dumps
from runyard.spec.codec import load_function

LIMIT = 1 << 31
"""The most bytes of a call."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode


def pack_arguments(
    args: tuple[Any, ...], named: Mapping[str, Any], reduce: Reduce | None = None
) -> bytes:
    """Pickle arguments, by value if they come from a script or notebook.

    `reduce` may override how an object is pickled.
    """
    try:
        return dumps((args, dict(named)), reduce)
    except Exception as error:
        raise UsageError(
            f"the arguments can't be sent to a worker: {error}",
            hint="they contain an object that can't be pickled (an open file, a lock, a "
            "connection); create it inside the function",
        ) from error


def pack(function: bytes, arguments: bytes) -> bytes:
    """A packed call, from a pickled function and packed arguments."""
    if len(function) + len(arguments) > LIMIT:
        raise UsageError(
            f"the call takes {len(function) + len(arguments):,} bytes, the limit is {LIMIT:,}",
            hint="put the data into a file and pass its path",
        )
    return _encode((function, arguments))


def call_packed(call: bytes) -> Any:
    """Run a packed call and return its result."""
    function, arguments = _decode(call)
    try:
        args, named = pickle.loads(arguments)
        value = load_function(function)(*args, **named)
        return asyncio.run(value) if inspect.iscoroutine(value) else value
    finally:
        for stream in (sys.stdout, sys.stderr):  # the worker may be killed at any moment
            with contextlib.suppress(Exception):
                stream.flush()


def call_it(function: Callable[[], Any]) -> Any:
    """Call a function that was passed as an argument."""
    return function()


def call_each(function: Callable[..., Any], chunk: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run a chunk of calls as one task."""
    return [function(*args) for args in chunk]


def pack_error(error: BaseException) -> bytes | None:
    """Pickle an error; None if that is impossible."""
    import cloudpickle

    try:
        return cast("bytes", cloudpickle.dumps(error, protocol=5))
    except Exception:
        return None


def load_error(data: bytes) -> BaseException | None:
    """Unpickle an error sent by one of this engine's workers; None if that fails."""
    try:
        found = pickle.loads(data)
    except Exception:
        return None
    return found if isinstance(found, BaseException) else None
