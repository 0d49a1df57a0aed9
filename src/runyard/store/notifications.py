"""Notifications of changes by other engines, through LISTEN and NOTIFY instead of polling."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

PATIENCE = 0.5
"""Seconds between checks whether the listener is still needed, and between reconnects."""


def channel_of(connection: psycopg.Connection[Any]) -> str:
    """The name of the notification channel of this connection's store."""
    path = connection.info.parameter_status("search_path") or ""
    return f"runyard {path}"[:60]


class Listener:
    """Calls back on every change, and after a gap in which notifications may have been missed."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._heard: list[Callable[[], None]] = []
        self.count = 0  # of notifications
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Call `heard` on each change; returns a function that removes it."""
        with self._lock:
            self._heard.append(heard)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._listen, name="runyard-listener", daemon=True
                )
                self._thread.start()

        def remove() -> None:
            with self._lock, suppress(ValueError):
                self._heard.remove(heard)

        return remove

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._thread is not None:
            self._thread.join()

    def _listen(self) -> None:
        while not self._closed:
            with suppress(psycopg.OperationalError), self._connect() as connection:
                connection.autocommit = True
                channel = sql.Identifier(channel_of(connection))
                connection.execute(sql.SQL("LISTEN {}").format(channel))
                self._tell()
                while not self._closed:
                    for _ in connection.notifies(timeout=PATIENCE, stop_after=1):
                        self._tell()
            if not self._closed:
                threading.Event().wait(PATIENCE)

    def _tell(self) -> None:
        self.count += 1
        with self._lock:
            listeners = list(self._heard)
        for heard in listeners:
            heard()
