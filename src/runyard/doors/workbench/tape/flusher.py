"""A thread that flushes the tapes of cells that run long, so that a kill leaves a second's loss."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SECONDS = 1.0


class Flushed(Protocol):
    """What the thread looks after."""

    def flush_if_due(self) -> None:
        """Flush, if that was last done a while ago."""


class _Flusher:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.live: set[Flushed] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, tape: Flushed) -> None:
        with self._lock:
            self.live.add(tape)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, daemon=True, name="runyard-tapes"
                )
                self._thread.start()

    def remove(self, tape: Flushed) -> None:
        with self._lock:
            self.live.discard(tape)

    def _work(self) -> None:
        while True:
            time.sleep(SECONDS)
            with self._lock:
                tapes = list(self.live)
                if not tapes:
                    self._thread = None
                    return
            for tape in tapes:
                tape.flush_if_due()


_flusher: _Flusher | None = None


@contextmanager
def flushing(tape: Flushed) -> Iterator[None]:
    """Flush a tape every second while this block runs."""
    global _flusher
    if _flusher is None or _flusher.pid != os.getpid():
        _flusher = _Flusher()
    flusher = _flusher
    flusher.add(tape)
    try:
        yield
    finally:
        flusher.remove(tape)
