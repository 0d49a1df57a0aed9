"""Where requests leave: the transports of httpx and httpx2, patched once.

A request that belongs to no tape goes out as it is. Which tape it belongs to is told by a context
variable, so that cells that run at once, in threads or on one event loop, never mix.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

from runyard import clock
from runyard.llm.cell import Tape, current_tape
from runyard.llm.costs import Usage
from runyard.llm.request import Call, pieces, recorded_answer, retry_after

REFUSED = frozenset({429, 529})
"""Statuses that say: too many requests."""

CANCELLED = "CancelledError"
"""What a tape says of a call that its caller has cancelled."""

EXTENSION = "runyard"
"""The extension of a request that our own client makes; it holds an OwnCall."""

_MODULES = ("httpx", "httpx2")
_installing = threading.Lock()
_installed: set[str] = set()


def install() -> None:
    """Patch the transports of the modules that are installed, once."""
    if len(_installed) == len(_MODULES):
        return
    with _installing:
        for name in _MODULES:
            if name not in _installed and importlib.util.find_spec(name) is not None:
                _patch(importlib.import_module(name))
            _installed.add(name)


class OwnCall(NamedTuple):
    """A call of our own client: the tape it belongs to, and what its attempts have used."""

    tape: Tape
    usages: list[Usage]


class Exchange:
    """A request under way, and its answer."""

    def __init__(self, tape: Tape, module: Any, request: Any, content: bytes) -> None:
        url = request.url
        self._usages: list[Usage] = getattr(request.extensions.get(EXTENSION), "usages", [])
        self._tape = tape
        self._module = module
        self._call = Call.of(request.method, url.raw_path.decode(), request.headers, content)
        self._number = tape.begin()
        self._pace = f"{url.netloc.decode()} {self._call.model or ''}".strip()
        self._response: Any = None
        self._began, self._sent = clock.monotonic(), clock.now()
        self._is_over = False
        self.parts: list[bytes] = []  # of the answer
        self.recorded = tape.replay(self._call) if tape.mode == "replay" else None

    def waits(self) -> Iterator[float]:
        """The seconds to wait until the request may be sent; refusals meanwhile make more."""
        shared = self._tape.shared
        while True:
            now, start = shared.reserve(self._pace)
            if start > now:
                yield start - now
                self._tape.waited(start - now)
                self._usages.append(Usage(waited=start - now))
            if shared.may_send(self._pace, now):
                break
        self._tape.refuse_beyond_budget(self._call)
        self._sent, self._began = clock.now(), clock.monotonic()

    def answered(self, response: Any) -> None:
        """The head of the answer is here."""
        self._response = response
        refused = response.status_code in REFUSED
        after = retry_after(response.headers) if refused else None
        self._tape.shared.answered(self._pace, self._sent, refused=refused, retry_after=after)

    def end(self, error: BaseException | None = None) -> None:
        """The answer is complete, or will never be."""
        if self._is_over:
            return
        self._is_over = True
        answer = recorded_answer(self._response, b"".join(self.parts), self._call.secrets)
        if error is not None:
            answer["error"] = type(error).__name__
        seconds = clock.monotonic() - self._began
        self._usages.append(self._tape.ended(self._number, self._call, answer, seconds))

    def replay(self) -> dict[str, Any]:
        """The recorded answer."""
        assert self.recorded is not None
        self._usages.append(self._tape.replayed(self._call, self.recorded))
        return self.recorded.answer

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Note the error that ends the answer."""
        try:
            yield
        except (self._module.TransportError, asyncio.CancelledError) as error:
            self.end(error)
            raise

    def recorded_error(self) -> Exception | None:
        """The error with which the recorded answer ended."""
        assert self.recorded is not None
        name = self.recorded.answer.get("error")
        if name is None:
            return None
        kind = getattr(self._module, name, self._module.TransportError)
        found: Exception = kind("recorded on the tape")
        return found


class _Heard:
    """The content of an answer as it comes in; it is kept."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        with self._exchange.noticing():
            for part in self._inner:
                self._exchange.parts.append(part)
                yield part
            self._exchange.end()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self._exchange.noticing():
            async for part in self._inner:
                self._exchange.parts.append(part)
                yield part
            self._exchange.end()

    def close(self) -> None:
        self._inner.close()
        self._exchange.end()

    async def aclose(self) -> None:
        await self._inner.aclose()
        self._exchange.end()


class _Replayed:
    """Recorded content."""

    def __init__(self, answer: dict[str, Any], error: Exception | None) -> None:
        self._answer = answer
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield from pieces(self._answer)
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def _tape(request: Any) -> Tape | None:
    own = request.extensions.get(EXTENSION)
    return current_tape() if own is None else own.tape


def _patch(module: Any) -> None:
    """Patch one module. Clients check the class of streams, so they are of the module's own."""
    kinds = module.SyncByteStream, module.AsyncByteStream
    heard, replayed = type("Heard", (_Heard, *kinds), {}), type("Replayed", (_Replayed, *kinds), {})

    def replay(exchange: Exchange) -> Any:
        answer, error = exchange.replay(), exchange.recorded_error()
        if "status" not in answer:
            assert error is not None
            raise error
        headers = dict(answer.get("headers", {}))
        if answer["status"] >= 400:
            headers["retry-after-ms"] = "1"  # a client that tries again need not wait
        return module.Response(answer["status"], headers=headers, stream=replayed(answer, error))

    _patch_sync(module, replay, heard)
    _patch_async(module, replay, heard)


def _patch_sync(module: Any, replay: Callable[[Exchange], Any], heard: type) -> None:
    send = module.HTTPTransport.handle_request

    @wraps(send)
    def handle_request(self: Any, request: Any) -> Any:
        tape = _tape(request)
        if tape is None:
            return send(self, request)
        exchange = Exchange(tape, module, request, request.read())
        if exchange.recorded is not None:
            return replay(exchange)
        with exchange.noticing():
            for delay in exchange.waits():
                time.sleep(delay)
            response = send(self, request)
        exchange.answered(response)
        response.stream = heard(response.stream, exchange)
        return response

    module.HTTPTransport.handle_request = handle_request


def _patch_async(module: Any, replay: Callable[[Exchange], Any], heard: type) -> None:
    send = module.AsyncHTTPTransport.handle_async_request

    @wraps(send)
    async def handle_async_request(self: Any, request: Any) -> Any:
        tape = _tape(request)
        if tape is None:
            return await send(self, request)
        exchange = Exchange(tape, module, request, await request.aread())
        if exchange.recorded is not None:
            if exchange.recorded.answer.get("error") == CANCELLED:
                await asyncio.get_running_loop().create_future()  # until it is cancelled again
            return replay(exchange)
        with exchange.noticing():
            for delay in exchange.waits():
                await asyncio.sleep(delay)
            response = await send(self, request)
        exchange.answered(response)
        response.stream = heard(response.stream, exchange)
        return response

    module.AsyncHTTPTransport.handle_async_request = handle_async_request
