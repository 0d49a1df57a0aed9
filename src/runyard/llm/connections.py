"""The connections of a client: kept open for each process, and for each event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from weakref import WeakKeyDictionary, finalize

from runyard.errors import UsageError

try:
    import httpx
except ImportError as missing:
    raise UsageError("the package httpx is missing", hint="pip install 'runyard[llm]'") from missing


__all__ = ["Connections", "httpx"]

_OfLoop = tuple[httpx.AsyncClient, AsyncGenerator[None]]


class Connections:
    """HTTP clients with the same settings. A forked child gets its own."""

    def __init__(self, timeout: float, headers: Mapping[str, str]) -> None:
        self._settings: dict[str, Any] = {
            "headers": dict(headers),
            "timeout": httpx.Timeout(timeout, pool=None),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
            "follow_redirects": True,
        }
        self._lock = threading.Lock()
        self._sync: tuple[int, httpx.Client] | None = None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = WeakKeyDictionary()

    def sync(self) -> httpx.Client:
        """The client of this process."""
        with self._lock:
            if self._sync is None or self._sync[0] != os.getpid():
                client = httpx.Client(**self._settings)
                self._sync = os.getpid(), client
                finalize(self, client.close)
            return self._sync[1]

    async def asynchronous(self) -> httpx.AsyncClient:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            client = httpx.AsyncClient(**self._settings)
            keeper = _closing(client)
            self._loops[loop] = client, keeper
            await anext(keeper)
        return self._loops[loop][0]

    def close(self) -> None:
        """Close the connections of this process; those of a loop are closed with it."""
        if self._sync is not None and self._sync[0] == os.getpid():
            self._sync[1].close()
        self._sync = None


async def _closing(client: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Closes the client with its loop: a loop that is shut down ends the generators it began."""
    try:
        yield
    finally:
        await client.aclose()
