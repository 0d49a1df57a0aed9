"""The messages between a host and the MCP server; every line gets an answer, also an invalid one.

The library drops what it can't read, and the host would wait forever.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Self

import anyio
import anyio.to_thread
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

MOST_LINE = 64 << 20
"""Bytes of one message."""

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class Wire:
    """Stdin and stdout as the library takes them: an iterator of lines, and a writer."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._turn = anyio.Lock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            line = await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)
            if not line:
                raise StopAsyncIteration
            answer = refusal(line)
            if answer is not None:
                await self.write(answer)
            elif line.strip():
                return line.decode()

    async def write(self, text: str) -> None:
        """Send text unchanged."""
        async with self._turn:
            await anyio.to_thread.run_sync(self._write, text.encode())

    async def flush(self) -> None:
        """Do nothing: what is written is sent."""

    def _read(self) -> bytes:
        line = self._incoming.readline(MOST_LINE + 1)
        while len(line) > MOST_LINE and not line.endswith(b"\n"):  # the rest of it is dropped
            line = line[:MOST_LINE] + (self._incoming.readline(MOST_LINE) or b"\n")[-1:]
        return line

    def _write(self, data: bytes) -> None:
        self._outgoing.write(data)
        self._outgoing.flush()


def refusal(line: bytes) -> str | None:
    """The answer to a line that the library can't read or would not answer; None for all others."""
    if not line.strip():
        return None
    if len(line) > MOST_LINE:
        return _error(PARSE_ERROR, f"a message has at most {MOST_LINE:,} bytes")
    try:
        message = json.loads(line.decode("utf-8"))
    except RecursionError:
        return _error(PARSE_ERROR, "it is nested too deeply")
    except ValueError as error:
        return _error(PARSE_ERROR, str(error))
    why = _problem(message, line)
    if why is None:
        return None
    return _error(INVALID_REQUEST, why, message.get("id") if isinstance(message, dict) else None)


def _problem(message: Any, line: bytes) -> str | None:
    """Why JSON is not a valid message; None if it is one, or a response."""
    if isinstance(message, list):
        return "send one message a line, without batches"
    if not isinstance(message, dict):
        return "a message must be an object"
    if "method" not in message and message.keys() & {"result", "error"}:
        return None
    number = message.get("id", 0)
    if isinstance(number, bool) or not isinstance(number, int | str):
        # The library would treat it as a notification, which gets no answer.
        return "id is neither a whole number nor text"
    if b"\\u" in line and not _is_unicode(message):
        return "it has text that is not valid Unicode"
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    return None


def _is_unicode(message: Any) -> bool:
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _error(code: int, why: str, number: Any = None) -> str:
    kind = "Parse error" if code == PARSE_ERROR else "Invalid request"
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    known = number if isinstance(number, str) or (is_number and abs(number) < math.inf) else None
    error = {"code": code, "message": f"{kind}: {why[:200]}"}
    return json.dumps({"jsonrpc": "2.0", "id": known, "error": error}) + "\n"


@contextlib.contextmanager
def wired() -> Iterator[Wire]:
    """The wire over stdin and stdout; output of other code goes to stderr meanwhile."""
    sys.stdout.flush()
    mine = [fcntl.fcntl(place, fcntl.F_DUPFD_CLOEXEC, 3) for place in (0, 1)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        # A thread may still be reading when this ends, so that its descriptor is never closed.
        with (
            open(mine[0], "rb", closefd=False) as incoming,
            open(mine[1], "wb", closefd=False) as out,
        ):
            yield Wire(incoming, out)
    finally:
        sys.stdout.flush()
        for place, each in enumerate(mine):
            os.dup2(each, place)
