"""A pool of open connections."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class _Connection(Protocol):
    def rollback(self) -> None:
        """Roll back the open transaction."""

    def close(self) -> None:
        """Close the connection."""


C = TypeVar("C", bound=_Connection)

KEEP = 4
"""The number of idle connections that stay open."""


class Pool(Generic[C]):
    """Lends connections; thread-safe. A forked child does not touch its parent's connections."""

    def __init__(
        self, connect: Callable[[], C], *, works: Callable[[C], bool], keep: int = KEEP
    ) -> None:
        self._connect = connect
        self._works = works
        self._keep = keep  # idle connections
        self._idle: deque[C] = deque()
        self._pid = os.getpid()
        self._of_parent: list[deque[C]] = []  # never closed: that would drop its locks

    @contextmanager
    def lent(self) -> Iterator[C]:
        """A connection without an open transaction."""
        connection = self.take()
        try:
            yield connection
        finally:
            self.give_back(connection)

    def take(self) -> C:
        """Take a connection: an idle one that still works, or a new one."""
        if self._pid != os.getpid():
            self._of_parent.append(self._idle)
            self._idle, self._pid = deque(), os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            if self._works(connection):
                return connection
            connection.close()

    def give_back(self, connection: C) -> None:
        """Return a connection to the pool; an open transaction is rolled back."""
        if self._works(connection) and len(self._idle) < self._keep:
            connection.rollback()
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop().close()
