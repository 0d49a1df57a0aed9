"""A call that travels beside the record: a function with its arguments, pickled, never stored.

Each call is unpickled afresh where it runs, so that nothing one task does to its function or its
arguments is seen by the next one.
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
"""Bytes that a call may have."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode


def pack_arguments(
    args: tuple[Any, ...], named: Mapping[str, Any], reduce: Reduce | None = None
) -> bytes:
    """Arguments as bytes, by value where they come from a script or notebook.

    `reduce` may say for any of them how pickle is to send it.
    """
    try:
        return dumps((args, dict(named)), reduce)
    except Exception as error:
        raise UsageError(
            f"the arguments can't be sent to a worker: {error}",
            hint="they hold on to something that can't be pickled (an open file, a lock, a "
            "connection); create that inside the function",
        ) from error


def pack(function: bytes, arguments: bytes) -> bytes:
    """A call as it travels, from a function by value and its packed arguments."""
    if len(function) + len(arguments) > LIMIT:
        raise UsageError(
            f"the call takes {len(function) + len(arguments):,} bytes, the limit is {LIMIT:,}",
            hint="put the data into a file and pass its path",
        )
    return _encode((function, arguments))


def call_packed(call: bytes) -> Any:
    """Run a packed call; what it returns."""
    function, arguments = _decode(call)
    try:
        args, named = pickle.loads(arguments)
        value = load_function(function)(*args, **named)
        return asyncio.run(value) if inspect.iscoroutine(value) else value
    finally:
        for stream in (sys.stdout, sys.stderr):  # a worker may be killed at any moment
            with contextlib.suppress(Exception):
                stream.flush()


def call_it(function: Callable[[], Any]) -> Any:
    """A call that is an argument itself; here, where a worker has it at hand."""
    return function()


def call_each(function: Callable[..., Any], chunk: Sequence[tuple[Any, ...]]) -> list[Any]:
    """A chunk of calls as one task."""
    return [function(*args) for args in chunk]


def pack_error(error: BaseException) -> bytes | None:
    """An error as bytes; None where it can't be pickled."""
    import cloudpickle

    try:
        return cast("bytes", cloudpickle.dumps(error, protocol=5))
    except Exception:
        return None


def load_error(data: bytes) -> BaseException | None:
    """The error behind bytes that this engine's own worker sent; None where it can't be rebuilt."""
    try:
        found = pickle.loads(data)
    except Exception:
        return None
    return found if isinstance(found, BaseException) else None
