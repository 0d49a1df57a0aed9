"""What Ctrl-C and SIGTERM mean to a run: first to finish what runs, then to stop at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from runyard import interrupts
from runyard.attempt import forked
from runyard.attempt.runner import StopNow
from runyard.schedule.ending import End
from runyard.schedule.loop import Loop


class Signals:
    """Heard from before a run begins until all of it is in order."""

    def __init__(self, tell: Callable[[str], None], hurry: Callable[[], None]) -> None:
        self._tell = tell
        self._hurry = hurry  # what may take long has to end soon
        self.loop: Loop | None = None  # which the first signal stops; before that, it ends all
        self._ends = False  # whether the run is being put in order: nothing may disturb that
        self.first: int | None = None  # what interrupted the run

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Signals mean this run in here, where they reach this thread."""
        here = forked.pid

        def hear(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            if forked.pid != here:  # a child that a task forked: it has nothing to finish
                signal.signal(number, before[number] or signal.SIG_DFL)
                signal.raise_signal(number)
                return
            self._hear(number)

        with interrupts.handled(hear) as before:
            try:
                yield
            finally:
                if self.first is not None:
                    interrupts.note_end()

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """Signals end what is done in here, and wait for what comes after it."""
        try:
            yield
        finally:
            self._ends = True

    def _hear(self, number: int) -> None:
        is_first, self.first = self.first is None, self.first or number
        if is_first and self.loop is not None and not self._ends:
            self.loop.stop(End.INTERRUPTED)
            running = self.loop.running
            tasks = "1 running task" if running == 1 else f"{running} running tasks"
            self._tell(f"finishing {tasks}; Ctrl-C again to stop at once")
            return
        self._hurry()
        if not self._ends:
            self._ends = True
            raise StopNow
