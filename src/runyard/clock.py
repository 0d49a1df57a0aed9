"""Wall and monotonic time in one place, so that tests can replace them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

now: Callable[[], float] = time.time
"""Seconds since the epoch; for records and for people."""

monotonic: Callable[[], float] = time.monotonic
"""Seconds that never go back; for waits, limits and durations."""


def steady() -> Callable[[], float]:
    """Wall time from now on that ignores later changes of the machine's clock."""
    begin = now() - monotonic()
    return lambda: begin + monotonic()


BEAT = 0.1
"""How often a process that counts its pauses looks at the clock."""

PAUSE = 0.4
"""A process that has not looked for this long and used no CPU time meanwhile was paused."""


class Pauses:
    """When this process was paused: stopped by a signal, frozen, or given no CPU time."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._monotonic = monotonic
        self._cpu = cpu
        self._lock = threading.RLock()  # a signal handler may ask at any moment
        self._seen = self._used = 0.0
        self._found: deque[tuple[float, float]] = deque(maxlen=1000)
        self._watchers = 0
        self._over = threading.Event()

    def look(self) -> float:
        """Note a pause that has just ended; returns the time."""
        with self._lock:
            now, used = self._monotonic(), self._cpu()
            gap = now - self._seen
            # A thread that holds the interpreter's lock keeps us from looking, but it computes.
            if self._watchers and gap > PAUSE and used - self._used < gap / 2:
                self._found.append((self._seen, now))
            self._seen, self._used = now, used
            return now

    def within(self, seconds: float, ago: float = 0.0) -> float:
        """Seconds of pause within a span of `seconds` that ended `ago` seconds ago."""
        until = self.look() - max(0.0, ago)
        since = until - seconds
        with self._lock:
            return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in self._found)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count pauses while this lasts."""
        with self._lock:
            self._watchers += 1
            if self._watchers == 1:
                self._seen, self._used = self._monotonic(), self._cpu()
                self._over = threading.Event()
                watch = threading.Thread(
                    target=self._watch, args=[self._over], name="runyard-clock", daemon=True
                )
                watch.start()
        try:
            yield
        finally:
            with self._lock:
                self._watchers -= 1
                if not self._watchers:
                    self._over.set()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(BEAT):
            self.look()


pauses = Pauses()
"""Those of this process, while an engine runs in it."""


@contextmanager
def replaced(
    *, wall: Callable[[], float] | None = None, mono: Callable[[], float] | None = None
) -> Iterator[None]:
    """Use other clocks during a test."""
    global now, monotonic
    before = now, monotonic
    now, monotonic = wall or now, mono or monotonic
    try:
        yield
    finally:
        now, monotonic = before
